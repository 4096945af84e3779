#include "nn/models/gpt.h"
#include "nn/attention/parts/laser.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "core/creation.h"
#include "core/memory/allocator.h"
#include "core/tape.h"
#include "nn/attention/composed.h"
#include "nn/transformer/mixers.h"
#include "ops/elementwise.h"
#include "ops/loss.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/view.h"
#include "optim/matrix_root.h"
#include "tests/nn/mechanisms.h"
#include "tests/nn/models/tiny_gpt.h"
#include "tests/ops/reference.h"
#include "tests/spec/spec.h"

using namespace vitrine;
using namespace vitrine::nn;
using test::freeze_estimates, test::ids, test::mechanisms, test::other_mixers;

namespace {

/// Several queries share a key head, where there is one.
GptOptions tiny_with_one_key_head(const std::string& attention) {
  GptOptions o = test::tiny_gpt(attention);
  o.key_heads = parse_mixer(attention).base->key_heads ? 1 : 0;
  return o;
}

/// Every mechanism, and every other option with the standard mechanism.
std::vector<std::pair<std::string, GptOptions>> choices() {
  std::vector<std::pair<std::string, GptOptions>> all;
  for (const auto& name : mechanisms()) all.emplace_back(name, tiny_with_one_key_head(name));
  for (const auto& name : other_mixers()) all.emplace_back(name, tiny_with_one_key_head(name));
  const auto add = [&](const char* name, const std::function<void(GptOptions&)>& change) {
    all.emplace_back(name, tiny_with_one_key_head("standard"));
    change(all.back().second);
  };
  for (const char* activation : {"relu", "gelu", "silu", "swiglu", "geglu"})
    add(activation, [&](GptOptions& o) { o.activation = value_named<Activation>(activation); });
  add("post-norm", [](GptOptions& o) { o.residual = Residual::post; });
  add("deepnet", [](GptOptions& o) { o.residual = Residual::deepnet; });
  add("admin", [](GptOptions& o) { o.residual = Residual::admin; });
  add("scale norm", [](GptOptions& o) { o.norm = NormKind::scale; });
  add("experts", [](GptOptions& o) { o.experts = {.count = 3, .per_token = 2, .capacity_factor = 0}; });
  add("RMS norm", [](GptOptions& o) { o.norm = NormKind::rms; });
  add("no bias", [](GptOptions& o) { o.bias = Bias::no; });
  add("hidden size", [](GptOptions& o) { o.hidden = 5; });
  add("sinusoidal", [](GptOptions& o) { o.positions = Positions::sinusoidal; });
  add("no positions", [](GptOptions& o) { o.positions = Positions::none; });
  add("an output layer of its own", [](GptOptions& o) { o.tied = false; });
  add("a mixture of softmaxes", [](GptOptions& o) { o.output_mixtures = 2; });
  add("a mixture of its own", [](GptOptions& o) { o.output_mixtures = 3, o.tied = false; });
  for (const char* kind : {"universal", "graves"})
    add(kind,
        [&](GptOptions& o) { o.universal = true, o.layers = 4, o.halting = value_named<HaltingKind>(kind); });
  add("own key heads", [](GptOptions& o) { o.key_heads = 0; });
  return all;
}

/// Replaces every parameter by larger random values, so that no path is negligible.
void randomize(Gpt& model) {
  Generator generator(9);
  for (Parameter& p : model.parameters())
    p.assign(randn(p.shape(), DType::float64, Device::cpu, p.shape().rank() == 1 ? 0.5 : 0, 0.4, generator));
}

}  // namespace

TEST_CASE("gradients of a GPT agree with differences for every mechanism and choice") {
  for (const auto& choice : choices()) {
    const std::string& name = choice.first;
    if (name == "relu") continue;  // finite differences cross its kink
    Gpt model(choice.second);
    model.to(DType::float64);
    randomize(model);
    freeze_estimates(model);
    const Tensor x = ids(2, 6), y = ids(2, 6);
    const auto loss = [&] { return cross_entropy(model.forward(x), y); };
    model.zero_grad();
    {
      Tape tape;
      tape.backward(loss());
    }
    for (const auto& named : model.named_parameters()) {
      const std::string& path = named.first;
      const Parameter& p = named.second;
      if (!p.requires_grad()) continue;
      REQUIRE_MESSAGE(p.grad().defined(), path);
      // The derivative in a random direction has a part of the gradient of each element.
      const Tensor some = test::normal(p.shape(), 7), direction = some / norm(some);
      const std::vector<double> before = p.master().values(), along = direction.values();
      const double h = 1e-4;
      const auto move = [&](double t) {
        double* const data = p.master().data<double>();
        for (size_t i = 0; i < before.size(); ++i) data[i] = before[i] + t * along[i];
      };
      const auto loss_at = [&](double t) {
        move(t);
        return loss().item();
      };
      const double want = (loss_at(-2 * h) - 8 * loss_at(-h) + 8 * loss_at(h) - loss_at(2 * h)) / (12 * h);
      move(0);
      const double got = sum(p.grad() * direction).item();
      CHECK_MESSAGE(std::abs(got - want) < 1e-8, fmt::format("{}, {}: {} against {}", name, path, got, want));
    }
  }
}

TEST_CASE("with a mixture of softmaxes the logits are log-probabilities, of a rank above the width") {
  const auto log_probabilities = [](int64_t mixtures) {
    GptOptions o = test::tiny_gpt();
    o.width = 3, o.heads = 1, o.output_mixtures = mixtures;
    Gpt model(o);
    model.to(DType::float64);
    randomize(model);
    model.eval();
    const Tensor logits = model.forward(ids(4, 8));
    // Those of a mixture are log-probabilities already.
    return reshape(mixtures > 0 ? logits : log_softmax(logits), {32, 11});
  };
  const Tensor mixed = log_probabilities(3);
  for (const double total : sum(exp(mixed), {-1}).values()) CHECK(total == doctest::Approx(1).epsilon(1e-12));
  // The rank of log p, less a number per row: at most C for one softmax (Yang et al. 2018).
  const auto rank_of = [](const Tensor& x) {
    const Tensor centred = x - mean(x, {-1}, KeepAxes::yes);
    int64_t rank = 0;
    for (const double value : optim::symmetric_eigen(matmul(transpose(centred), centred).values(), 11).values)
      rank += value > 1e-9;
    return rank;
  };
  CHECK(rank_of(log_probabilities(0)) == 3);
  CHECK(rank_of(mixed) > 3);
}

TEST_CASE("decoding token by token with the cache equals the full pass") {
  for (const auto& choice : choices()) {
    const std::string& name = choice.first;
    Gpt model(choice.second);
    model.to(DType::float64);
    randomize(model);
    model.eval();
    const Tensor x = ids(2, 8);
    const auto want = model.forward(x).values();
    const auto state = model.make_state(2);
    std::vector<double> got(want.size());
    for (int64_t t = 0; t < 8; ++t) {
      const auto step = model.forward(slice(x, 1, t, t + 1), {.state = state.get()}).values();
      for (size_t b = 0; b < 2; ++b)
        for (size_t v = 0; v < 11; ++v) got[(b * 8 + static_cast<size_t>(t)) * 11 + v] = step[b * 11 + v];
    }
    CHECK_MESSAGE(spec::distance(got, want, 1e-3) < 1e-12, name);
  }
}

TEST_CASE("a token never sees what comes after it") {
  for (const auto& choice : choices()) {
    const std::string& name = choice.first;
    Gpt model(choice.second);
    model.to(DType::float64);
    randomize(model);
    Tensor x = ids(1, 8);
    const auto before = slice(model.forward(x), 1, 0, 5).values();
    x.data<int64_t>()[6] = (x.data<int64_t>()[6] + 1) % 11;
    // LASER's anchors depend on all keys, so a later token changes the rounding, and nothing else.
    CHECK_MESSAGE(spec::distance(slice(model.forward(x), 1, 0, 5).values(), before, 1e-3) < 1e-13, name);
  }
}

TEST_CASE("LASER's read obeys its bounds and equals the two log-sum-exps, for small and for large values") {
  Generator generator(4);
  for (double size : {1e-6, 0.1, 1.0, 20.0, 500.0}) {
    const Tensor scores = randn({1, 2, 5, 7}, DType::float64, Device::cpu, 0, 2, generator);
    const Tensor v = randn({1, 2, 7, 3}, DType::float64, Device::cpu, 0, size, generator);
    const Tensor weights = softmax(scores);
    const auto read = LaserReadOut().read({.weights = weights, .scores = scores}, v).values();
    const auto s = scores.values(), values = v.values();
    for (size_t h = 0; h < 2; ++h)
      for (size_t i = 0; i < 5; ++i)
        for (size_t d = 0; d < 3; ++d) {
          long double top = -INFINITY, bottom = -INFINITY, low = INFINITY, high = -INFINITY;
          const auto add = [](long double& sum, long double x) {
            const long double m = std::max(sum, x);
            sum = m + std::log(std::exp(sum - m) + std::exp(x - m));
          };
          for (size_t j = 0; j < 7; ++j) {
            const long double score = s[(h * 5 + i) * 7 + j], value = values[(h * 7 + j) * 3 + d];
            add(top, score + value);
            add(bottom, score);
            low = std::min(low, value);
            high = std::max(high, value);
          }
          const double got = read[(h * 5 + i) * 3 + d];
          CHECK(std::abs(got - static_cast<double>(top - bottom)) <= 1e-12 * std::max(size, 1.0));
          CHECK(got >= static_cast<double>(low) - 1e-12 * size);
          CHECK(got <= static_cast<double>(high) + 1e-12 * size);
        }
  }
}

TEST_CASE("a query that sees no key gives 0 and sends back no gradient") {
  for (const char* name : {"standard", "laser"}) {
    const ComposedAttention attention(parse_attention(name), 2, 4, 8);
    Generator generator(5);
    Tensor q = randn({1, 2, 3, 4}, DType::float64, Device::cpu, 0, 1, generator);
    Tensor k = randn({1, 2, 3, 4}, DType::float64, Device::cpu, 0, 1, generator);
    Tensor v = randn({1, 2, 3, 4}, DType::float64, Device::cpu, 0, 1, generator);
    AttentionMask mask;
    mask.allowed = tensor({1, 1, 0, 0, 0, 0, 0, 1, 1}, {3, 3}, DType::boolean);
    Tape tape;
    for (const Tensor& t : {q, k, v}) tape.watch(t);
    const Tensor y = attention.forward(q, k, v, mask);
    for (double value : select(y, 2, 1).values()) CHECK(value == 0);
    const auto gradients = tape.gradient(sum(y * y), {q, k, v});
    for (double value : select(gradients[0], 2, 1).values()) CHECK(value == 0);
    for (const Tensor& g : gradients)
      for (double value : g.values()) CHECK(std::isfinite(value));
  }
}

TEST_CASE("misspelt and senseless attention names are refused with a reason") {
  const auto message = [](const std::string& name) -> std::string {
    try {
      parse_attention(name);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  CHECK(message("lasr+qk_norm").find("did you mean laser?") != std::string::npos);
  CHECK(message("").find("empty") != std::string::npos);
  CHECK(message("cosine+qk_norm").find("both change the norm of queries and keys") != std::string::npos);
  CHECK(message("optimal+entropy").find("exclude each other") != std::string::npos);
  CHECK(message("laser+laser").find("twice") != std::string::npos);
  CHECK(message("softcap").find("needs a value, as softcap=2") != std::string::npos);
  CHECK(message("softcap=-1").find("above 0") != std::string::npos);
  CHECK(message("laser=2").find("takes no value") != std::string::npos);
}

TEST_CASE("positions are learned, sinusoidal or left to the attention") {
  const auto has_table = [](const GptOptions& o) { return Gpt(o).state_dict().count("positions") == 1; };
  GptOptions o = tiny_with_one_key_head("standard");
  CHECK(has_table(o));
  CHECK(!has_table(tiny_with_one_key_head("rotary")));
  CHECK(!has_table(tiny_with_one_key_head("laser+alibi")));
  o.positions = Positions::none;
  CHECK(!has_table(o));
  o.positions = Positions::sinusoidal;
  CHECK(!has_table(o));
  // The same tokens in another order. Without a mask, only positions distinguish the rows of the
  // last token.
  const Tensor a = tensor({1, 2, 3, 3}, {1, 4}, DType::int64);
  const auto row = [](const Tensor& y, int64_t i) { return select(select(y, 0, 0), 0, i).values(); };
  manual_seed(1);
  Gpt with(o);
  CHECK(row(with.forward(a), 2) != row(with.forward(a), 3));
  CHECK_THROWS_WITH(value_named<Positions>("rotary"), doctest::Contains("are parts of attention"));
}

TEST_CASE("blocks that are computed again in the backward give the same bits, dropout included") {
  GptOptions o = tiny_with_one_key_head("laser");
  o.dropout = 0.3;
  std::vector<std::vector<double>> results[2];
  for (const bool again : {false, true}) {
    o.recompute_blocks = again;
    manual_seed(3);
    Gpt model(o);
    Tape tape;
    const Tensor loss = cross_entropy(model.forward(ids(2, 6)), ids(2, 6));
    const size_t nodes = tape.size();
    model.eval();  // does not affect the second run of the blocks
    tape.backward(loss);
    results[again].push_back({loss.item()});
    for (const Parameter& p : model.parameters()) results[again].push_back(p.grad().values());
    CHECK((again ? nodes < 12 : nodes > 30));
  }
  CHECK(results[0] == results[1]);
}

TEST_CASE(
    "sums of 16-bit training go on through blocks that are computed again, and through reversible ones") {
  for (const DType dtype : {DType::bfloat16, DType::float16})
    for (const bool universal : {false, true}) {
      GptOptions o = tiny_with_one_key_head("standard");
      o.universal = universal;
      // After two backwards, the second of which continues the sums of the first.
      const auto gradients = [&](const GptOptions& options, bool twice = true) {
        manual_seed(3);
        Gpt model(options);
        model.to(dtype);
        for (int i = 0; i <= int{twice}; ++i) {
          Tape tape;
          tape.backward(cross_entropy(model.forward(ids(2, 6)), ids(2, 6)));
        }
        std::vector<Tensor> result;
        for (const Parameter& p : model.parameters()) result.push_back(p.grad());
        return result;
      };
      INFO(name(dtype), ", universal: ", universal);
      const auto stored = gradients(o);
      o.recompute_blocks = true;
      const auto again = gradients(o);
      for (size_t i = 0; i < stored.size(); ++i) CHECK(again[i].values() == stored[i].values());
      if (universal) continue;
      o.recompute_blocks = false, o.reversible = true;
      const auto once = gradients(o, false), reversible = gradients(o);
      for (size_t i = 0; i < once.size(); ++i) {
        CHECK(reversible[i].dtype() == DType::float32);
        CHECK(test::distance(reversible[i], once[i] + once[i]) <= 1e-5 * max(abs(once[i])).item() + 1e-12);
      }
    }
}

TEST_CASE("the tokens of a universal Transformer are as large as the sinusoids that are added to them") {
  manual_seed(1);
  const Gpt model({.vocabulary = 30, .context = 8, .width = 64, .layers = 2, .universal = true});
  Tensor x = zeros({1, 8}, DType::int64), y = ones({1, 8}, DType::int64);
  const double same = norm(model.features(x)).item(),
               other = norm(model.features(x) - model.features(y)).item();
  CHECK(other > 0.5 * same);
  CHECK(mean(square(model.tokens.weight.value())).item() == doctest::Approx(1.0 / 64).epsilon(0.1));
}

TEST_CASE("a training step stores at least the values per token that are stated, and not many more") {
  for (const bool recompute : {false, true}) {
    GptOptions o = tiny_with_one_key_head("standard");
    o.width = 32, o.layers = 4, o.context = 64, o.recompute_blocks = recompute;
    Gpt model(o);
    const Tensor x = ids(8, 64), y = ids(8, 64);
    const size_t before = memory::statistics().now;
    memory::reset_peak();
    {
      Tape tape;
      tape.backward(cross_entropy(model.forward(x), y));
    }
    const double values = static_cast<double>(memory::statistics().peak - before) / (8 * 64 * sizeof(float));
    INFO(recompute);
    CHECK(values > static_cast<double>(model.values_per_token()));
    CHECK(values < (recompute ? 9 : 3) * static_cast<double>(model.values_per_token()));
  }
}

TEST_CASE("loss and gradients of a GPT have the same bits on 1, 2, 3 and 7 threads, in bfloat16 too") {
  Generator generator(6);
  const Tensor x = randint(0, 61, {3, 50}, Device::cpu, generator),
               y = randint(0, 61, {3, 50}, Device::cpu, generator);
  for (const DType dtype : {DType::float32, DType::bfloat16})
    for (const char* attention : {"standard", "laser+qk_norm+rotary"}) {
      INFO(name(dtype), ", ", attention);
      manual_seed(2);
      Gpt model({.vocabulary = 61, .context = 50, .width = 96, .layers = 2, .heads = 3, .mixer = attention});
      model.to(dtype);
      CHECK(test::same_on_any_threads([&] {
        for (Parameter& p : model.parameters()) p.zero_grad();
        Tape tape;
        const Tensor loss = cross_entropy(model.forward(x), y);
        tape.backward(loss);
        std::vector<Tensor> all = {loss};
        for (const Parameter& p : model.parameters()) all.push_back(clone(p.grad()));
        return all;
      }));
    }
}
