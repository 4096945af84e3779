// Attentions of linear cost and of low rank: the linear forms against the weights that define them,
// decoding, masks, what is refused, and the cost itself.
#include "nn/attention/linear.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "core/creation.h"
#include "core/profiler.h"
#include "core/random.h"
#include "nn/attention/linformer.h"
#include "nn/attention/performer.h"
#include "nn/check_gradients.h"
#include "nn/transformer/mixers.h"
#include "ops/activation.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/view.h"
#include "tests/ops/reference.h"

using namespace vitrine;
using namespace vitrine::nn;

namespace {

/// The attention of a name, for heads of 6 channels.
std::unique_ptr<Attention> linear_attention(const std::string& text, int64_t heads = 2,
                                            int64_t context = 16) {
  manual_seed(7);
  const MixerName name = parse_mixer(text);
  auto attention = name.base->attention(name.parts, {heads, 6, context}, name.values);
  attention->to(DType::float64);
  return attention;
}

/// What the weights of a trace read, by the formulas over all pairs of positions. Values up to 1
/// keep their digits in e^v − 1.
Tensor quadratic(const MixerTrace& trace, const Tensor& v, bool laser, double size) {
  const Tensor values = define::repeat_key_heads(v, trace.weights.size(1));
  if (!laser) return matmul(trace.weights, values);
  if (size <= 1) return log1p(matmul(trace.weights, expm1(values)));
  const Tensor seen = greater(trace.weights, zeros_like(trace.weights));
  const Tensor logs = where(seen, log(where(seen, trace.weights, 1.0)), -INFINITY);
  return log_sum_exp(unsqueeze(logs, -1) + unsqueeze(values, -3), {-2});
}

const char* const kAttentions[] = {"linear", "linear+laser+qk_norm", "performer=9",
                                   "performer=9+laser+rotary"};

std::string label(const std::string& name, bool causal) { return name + (causal ? ", causal" : ""); }
bool has_laser(const std::string& name) { return name.find("laser") != std::string::npos; }

}  // namespace

TEST_CASE("linear forms equal the quadratic form of their weights, with small and with large values") {
  for (const char* name : kAttentions)
    for (const double size : {1e-4, 1.0, 20.0, 300.0})
      for (const bool causal : {false, true})
        for (const auto& counts : {std::pair<int64_t, int64_t>{70, 70}, {3, 130}, {9, 5}}) {
          const int64_t queries = counts.first, keys = counts.second;
          INFO(label(name, causal), ", values of ", size, ", queries and keys ", queries, " ", keys);
          const auto attention = linear_attention(name);
          const Tensor q = test::normal({2, 2, queries, 6}, 1), k = test::normal({2, 1, keys, 6}, 2),
                       v = test::normal({2, 1, keys, 6}, 3, DType::float64, size);
          const AttentionMask mask{.causal = causal};
          MixerTrace trace;
          const Tensor y = attention->forward(q, k, v, mask, nullptr, &trace);
          const int64_t blind = causal ? std::max<int64_t>(0, queries - keys) : 0;
          CHECK(test::distance(slice(y, 2, blind),
                               slice(quadratic(trace, v, has_laser(name), size), 2, blind), size) < 1e-13);
          for (const double zero : slice(y, 2, 0, blind).values()) CHECK(zero == 0);
          CHECK(trace.distribution);
          CHECK(test::distance(sum(slice(trace.weights, 2, blind), {-1}),
                               ones({2, 2, queries - blind}, DType::float64)) < 1e-14);
          CHECK(min(trace.weights).item() >= 0);
        }
  // The weights themselves: φ(q)·φ(k) with φ = elu + 1.
  const Tensor q = test::normal({1, 1, 3, 6}, 1), k = test::normal({1, 1, 4, 6}, 2);
  MixerTrace trace;
  linear_attention("linear", 1)->forward(q, k, k, {}, nullptr, &trace);
  const Tensor products = matmul(elu(q) + 1, transpose(elu(k) + 1));
  CHECK(test::distance(trace.weights, products / sum(products, {-1}, KeepAxes::yes)) < 1e-15);
}

TEST_CASE("blocks of any size, and the scan, give the same causal read and the same sums") {
  const ReadOut mean;
  const Tensor q = abs(test::normal({1, 2, 23, 5}, 1)), k = abs(test::normal({1, 2, 23, 5}, 2)),
               v = test::normal({1, 2, 23, 3}, 3);
  const FeatureKeys past{abs(test::normal({1, 2, 4, 5}, 4)), test::normal({1, 2, 4, 3}, 5), {}};
  const auto logs = [](const FeatureKeys& keys) {
    return FeatureKeys{log(keys.features), keys.values, keys.seen};
  };
  for (const bool has_past : {false, true}) {
    const MeanRead want =
        read_mean(q, {k, v, {}}, has_past ? read_mean(q, past, {}, false).sum : Tensor(), true);
    const FeatureSums earlier = has_past ? sums_of(logs(past), mean) : FeatureSums();
    for (const int64_t block : {1, 2, 3, 8, 23, 64}) {
      INFO(block);
      const CausalRead got = causal_read(log(q), logs({k, v, {}}), earlier, mean, block);
      CHECK(test::distance(got.y, want.y) < 1e-13);
      const Tensor mass = exp(got.after.log_mass);
      CHECK(test::distance(concat({got.after.values * mass, mass}, -1), want.sum) < 1e-13);
    }
  }
}

TEST_CASE("LASER reads by features that are too small for a number") {
#ifdef VITRINE_SANITIZED
  const std::vector<double> sizes = {1000}, ranges = {100};
#else
  const std::vector<double> sizes = {1, 10, 100, 1000}, ranges = {1, 100};
#endif
  for (const char* name : {"linear+laser", "performer=9+laser"})
    for (const double size : sizes)
      for (const double values : ranges)
        for (const bool causal : {false, true}) {
          INFO(label(name, causal), ", inputs of ", size, ", values of ", values);
          const auto attention = linear_attention(name);
          attention->to(DType::float32);
          const Tensor q = test::normal({1, 2, 70, 6}, 1, DType::float32, size),
                       k = test::normal({1, 2, 70, 6}, 2, DType::float32, size),
                       v = test::normal({1, 2, 70, 6}, 3, DType::float32, values);
          Tape tape;
          for (const Tensor& x : {q, k, v}) tape.watch(x);
          MixerTrace trace;
          const Tensor y = attention->forward(q, k, v, {.causal = causal}, nullptr, &trace);
          for (const Tensor& g : tape.gradient(sum(y), {q, k, v})) CHECK(all(is_finite(g)).item() == 1);
          const Tape::Pause pause;
          CHECK(test::distance(sum(trace.weights, {-1}), ones({1, 2, 70})) < 1e-5);
          // The first query of a causal read sees one key alone, whatever its weight.
          if (causal) CHECK(test::distance(slice(y, 2, 0, 1), slice(v, 2, 0, 1)) < 1e-5);
          // A read is never above the largest value that is seen.
          CHECK(max(y).item() <= max(v).item() * (1 + 1e-5));
        }
}

TEST_CASE("pairs whose product of features vanishes have its logarithm all the same") {
  // Each query's largest feature is where the keys have their smallest.
  const Tensor q = tensor({0, -400, -800, -300}, {2, 2}), k = tensor({-500, 0, -300, 0, 0, 0}, {3, 2});
  const Tensor want = tensor({-400, -300, 0, -300, -300, -300}, {2, 3});
  CHECK(test::distance(log_products(q, k, {}), want) < 1e-6);
}

TEST_CASE("a later value has no part in earlier outputs, however large it is") {
  for (const char* name : kAttentions) {
    INFO(std::string(name));
    const auto attention = linear_attention(name);
    const Tensor q = test::normal({1, 2, 150, 6}, 1), k = test::normal({1, 2, 150, 6}, 2),
                 v = test::normal({1, 2, 150, 6}, 3);
    const auto before = [&](const Tensor& keys, const Tensor& values) {
      return slice(attention->forward(q, keys, values, {.causal = true}), 2, 0, 140);
    };
    const auto changed = [](const Tensor& x, const Tensor& late) {
      return concat({slice(x, 2, 0, 140), late}, 2);
    };
    const Tensor want = before(k, v);
    CHECK(test::distance(before(k, changed(v, full({1, 2, 10, 6}, 1000, DType::float64))), want) < 1e-13);
    CHECK(test::distance(before(changed(k, test::normal({1, 2, 10, 6}, 8, DType::float64, 20)), v), want) <
          1e-13);
    attention->to(DType::float32);
    const auto narrow = [&](const Tensor& values) {
      const auto f = [](const Tensor& x) { return cast(x, DType::float32); };
      return slice(attention->forward(f(q), f(k), f(values), {.causal = true}), 2, 0, 140);
    };
    CHECK(test::distance(narrow(changed(v, full({1, 2, 10, 6}, 1000, DType::float64))), want, 1) < 2e-5);
  }
}

TEST_CASE("values that are close to each other need no exact read, wherever they are") {
  const auto attention = linear_attention("linear+laser");
  const Tensor x = test::normal({1, 2, 150, 6}, 1), v = test::normal({1, 2, 150, 6}, 3, DType::float64, 0.1);
  const auto calls_of = [&](const Tensor& values) {
    Profiler profiler;
    attention->forward(x, x, values, {.causal = true});
    int64_t calls = 0;
    for (const auto& row : profiler.by_op()) calls += row.name == "log_sum_exp" ? row.calls : 0;
    return calls;
  };
  // The logarithms of the masses take some calls too.
  const int64_t masses = calls_of(zeros_like(v));
  CHECK(calls_of(v + 1000) == masses);
  CHECK(calls_of(v * 1000) > masses);
}

TEST_CASE("decoding in steps equals the full pass, also after the state was copied and its rows reordered") {
  for (const char* name : kAttentions) {
    INFO(std::string(name));
    const auto attention = linear_attention(name);
    const Tensor q = test::normal({2, 2, 80, 6}, 1), k = test::normal({2, 1, 80, 6}, 2),
                 v = test::normal({2, 1, 80, 6}, 3, DType::float64, 8);
    const AttentionMask causal{.causal = true};
    MixerTrace whole_trace, trace;
    const Tensor whole = attention->forward(q, k, v, causal, nullptr, &whole_trace);
    auto state = attention->make_state(2, 80);
    int64_t bytes = 0, at = 0;
    const auto step = [&](int64_t count, DecodingState& s) {
      const auto part = [&](const Tensor& x) { return slice(x, 2, at, at + count); };
      const Tensor y = attention->forward(part(q), part(k), part(v), causal, &s, &trace);
      CHECK(test::distance(y, part(whole)) < 1e-12);
      // The weights of the new keys, next to those of the state.
      CHECK(test::distance(trace.weights, slice(part(whole_trace.weights), 3, at, at + count)) < 1e-12);
      CHECK(trace.distribution == (at == 0));
    };
    for (const int64_t count : {1, 1, 66, 5}) {
      step(count, *state), at += count;
      CHECK((bytes == 0 || state->bytes() == bytes));
      bytes = state->bytes();
    }
    CHECK(state->length() == 73);
    const auto copy = state->clone();
    step(7, *state);
    copy->reorder(index_tensor(std::vector<int64_t>{1, 0}, {2}));
    copy->reorder(index_tensor(std::vector<int64_t>{1, 0}, {2}));
    step(7, *copy);
    // Without a causal mask, a query reads the keys of the state and all others.
    const auto part = [](const Tensor& x, int64_t begin) { return slice(x, 2, begin, begin + 40); };
    const auto half = attention->make_state(2, 80);
    attention->forward(part(q, 0), part(k, 0), part(v, 0), {}, half.get());
    CHECK(test::distance(attention->forward(part(q, 40), part(k, 40), part(v, 40), {}, half.get()),
                         part(attention->forward(q, k, v, {}), 40)) < 1e-12);
  }
}

TEST_CASE("gradients with parts, grouped heads, padding and every range of values") {
  const Tensor shown = tensor({1, 1, 0, 1, 1}, {1, 1, 1, 5}, DType::boolean);
  for (const char* name : {"linear", "linear+laser+qk_norm", "performer=4+laser+rotary", "linformer=2+laser"})
    for (const double size : {1.0, 12.0, 90.0})
      for (const bool causal : {false, true}) {
        if (causal && std::string(name).starts_with("linf")) continue;
        INFO(label(name, causal), ", values of ", size);
        const auto attention = linear_attention(name);
        const GradientReport report = check_gradients(
            *attention,
            [&](const std::vector<Tensor>& x) {
              return attention->forward(x[0], x[1], x[2], {.causal = causal, .allowed = shown});
            },
            {test::normal({1, 2, 4, 6}, 1), test::normal({1, 1, 5, 6}, 2),
             test::normal({1, 1, 5, 6}, 3, DType::float64, size)});
        CHECK_MESSAGE(report.passed, to_string(report));
      }
}

TEST_CASE("hidden keys do not enter, and a row without keys gives 0 and sends back finite gradients") {
  for (const char* name :
       {"linear", "linear+laser", "performer=9", "performer=9+laser", "linformer", "linformer+laser"})
    for (const bool causal : {false, true}) {
      if (causal && std::string(name).starts_with("linf")) continue;
      INFO(label(name, causal));
      const auto attention = linear_attention(name);
      Tensor q = test::normal({3, 2, 6, 6}, 1), k = test::normal({3, 2, 6, 6}, 2),
             v = test::normal({3, 2, 6, 6}, 3);
      const int64_t lengths[] = {6, 4, 0};
      const AttentionMask mask{.causal = causal, .allowed = padding_mask(lengths, 6)};
      // What is hidden may be anything.
      const Tensor bad = where(transpose(mask.allowed), zeros_like(v), NAN);
      Tape tape;
      for (const Tensor& x : {q, k, v}) tape.watch(x);
      const Tensor y = attention->forward(q, k + bad, v + bad, mask);
      const auto short_row = [](const Tensor& x) { return slice(slice(x, 0, 1, 2), 2, 0, 4); };
      {
        const Tape::Pause pause;
        const Tensor alone = attention->forward(short_row(q), short_row(k), short_row(v), {.causal = causal});
        CHECK(test::distance(short_row(y), alone) < 1e-13);
      }
      for (const double zero : select(y, 0, 2).values()) CHECK(zero == 0);
      for (const Tensor& g : tape.gradient(sum(y * y), {q, k, v})) {
        CHECK(all(is_finite(g)).item() == 1);
        CHECK(max(abs(select(g, 0, 2))).item() == 0);
      }
    }
}

TEST_CASE("features of very negative numbers keep their digits in float32") {
  const auto attention = linear_attention("linear");
  const Tensor v = test::normal({2, 2, 5, 6}, 3);
  for (const double mean : {-5.0, -12.0, -20.0, -40.0}) {
    INFO(mean);
    const Tensor q = test::normal({2, 2, 5, 6}, 1) + mean, k = test::normal({2, 2, 5, 6}, 2) + mean / 2;
    const auto run = [&](DType dtype) {
      Tape tape;
      std::vector<Tensor> x;
      for (const Tensor& t : {q, k, v}) x.push_back(tape.watch(cast(t, dtype)));
      const Tensor y = attention->forward(x[0], x[1], x[2], {.causal = true});
      std::vector<Tensor> all = tape.gradient(sum(square(y)), x);
      all.push_back(y);
      return all;
    };
    const auto got = run(DType::float32), want = run(DType::float64);
    for (size_t i = 0; i < got.size(); ++i) CHECK(test::largest_difference(got[i], want[i]) < 1e-4);
  }
}

TEST_CASE("without keys every query reads 0") {
  for (const char* name : kAttentions)
    for (const bool causal : {false, true}) {
      INFO(label(name, causal));
      const auto attention = linear_attention(name);
      const Tensor q = test::normal({1, 2, 3, 6}, 1), none = zeros({1, 2, 0, 6}, DType::float64);
      MixerTrace trace;
      const Tensor y = attention->forward(q, none, none, {.causal = causal}, nullptr, &trace);
      CHECK(y.shape() == q.shape());
      for (const double zero : y.values()) CHECK(zero == 0);
      CHECK(trace.weights.shape() == Shape{1, 2, 3, 0});
    }
}

TEST_CASE("what a mechanism cannot do is refused with its reason") {
  const auto refused = [](const std::function<void()>& f, const char* reason) {
    CHECK_THROWS_WITH_AS(f(), doctest::Contains(reason), Error);
  };
  refused([] { linear_attention("linear+rotary"); },
          "linear: rotary makes q·k depend on the distance of two positions");
  refused([] { linear_attention("linear+cosine"); }, "linear: cosine sets the factor of the scores");
  refused([] { linear_attention("linear+alibi"); },
          "mixer: linear takes no part alibi: no part can change its scores");
  refused([] { linear_attention("performer+window=3"); },
          "performer takes no part window: no part can change its mask");
  refused([] { linear_attention("performer=0"); },
          "performer: features is 0, wanted a whole number from 1 on");
  refused([] { linear_attention("performer=rank=3"); }, "performer has no option rank=3; it has features");
  refused([] { linear_attention("linformer+alibi"); }, "linformer: alibi depends on positions");
  refused([] { linear_attention("linformer=17"); },
          "linformer: the rank is 17, wanted at most the context, 16");
  refused([] { make_mixer({.name = "linformer"}); }, "mixer: linformer cannot hide later positions");
  refused([] { make_mixer({.key_heads = 2, .name = "latent"}); },
          "mixer: there are 2 heads of keys, and latent has none of its own");
  const Tensor x = test::normal({1, 2, 3, 6}, 1);
  const auto attention = linear_attention("linear");
  refused([&] { attention->forward(x, x, x, {.left = 1}); }, "linear: a window hides keys from some queries");
  refused(
      [&] {
        attention->forward(x, x, x, {.bias = test::normal({3, 3}, 2)});
      },
      "linear: a bias of the scores");
  refused(
      [&] {
        attention->forward(x, x, x, {.allowed = ones({3, 3}, DType::boolean)});
      },
      "linear: `allowed` is [3, 3] and may differ from query to query");
  refused([&] { attention->forward(x, x, slice(x, 2, 1), {}); },
          "linear: q is [1, 2, 3, 6], k [1, 2, 3, 6] and v");
  const auto other = linear_attention("performer")->make_state(1, 4);
  refused([&] { attention->forward(x, x, x, {}, other.get()); }, "linear: the state is one of another mixer");
  const auto linformer = linear_attention("linformer", 2, 2);
  refused([&] { linformer->forward(x, x, x, {}); }, "with T at most the context, 2");
  refused([&] { linformer->forward(x, x, x, {.causal = true}); }, "wanted an attention that is not causal");
  refused([&] { linformer->make_state(1, 2); }, "a state cannot be continued");
}

TEST_CASE("names have options of bases as of parts") {
  CHECK(parse_mixer("laser+performer=features=5").text() == "performer=features=5+laser");
  CHECK(parse_mixer("performer=5").values.whole("features") == 5);
  CHECK(!parse_mixer("performer").values.has("features"));
  CHECK(cross_attention_of({.width = 8, .heads = 2, .name = "performer=5+rotary+laser"}) ==
        "performer=5+laser");
  CHECK(mixer_help().find("delta") != std::string::npos);
  CHECK(linear_attention("linear+laser")
            ->explain(false, {.causal = true})
            .find("earlier blocks by their sums") != std::string::npos);
  CHECK(linear_attention("linear")
            ->explain(true, {.causal = true})
            .find("the op linear_scan keeps running sums") != std::string::npos);
  CHECK(linear_attention("linformer=3")->explain().find("projected to 3 rows") != std::string::npos);
}

TEST_CASE("Performer estimates softmax attention, better with more features") {
  const Tensor q = test::normal({1, 2, 12, 6}, 1, DType::float64, 0.5),
               k = test::normal({1, 2, 12, 6}, 2, DType::float64, 0.5), v = test::normal({1, 2, 12, 6}, 3);
  for (const char* parts : {"", "+rotary", "+laser"}) {
    INFO(std::string(parts));
    const Tensor want = linear_attention("standard" + std::string(parts))->forward(q, k, v, {.causal = true});
    const auto error = [&](int features) {
      const auto performer = linear_attention("performer=" + std::to_string(features) + parts);
      return test::distance(performer->forward(q, k, v, {.causal = true}), want, 1);
    };
    CHECK(error(20000) < 0.02);
    CHECK(error(8) > 0.1);
  }
  const AttentionSizes sizes{1, 6, 16};
  Performer performer(parse_attention("standard"), sizes, 12);
  performer.to(DType::float64);
  const Tensor w = performer.projection;
  const Tensor block = slice(w, 0, 0, 6), products = matmul(block, transpose(block));
  for (int i = 0; i < 6; ++i)
    for (int j = 0; j < i; ++j) CHECK(std::abs(select(select(products, 0, i), 0, j).item()) < 1e-5);
  CHECK(performer.state_dict().count("projection") == 1);
  const Performer copy = performer.clone();
  CHECK(test::distance(copy.projection, w) == 0);
  Generator g(1), same(1);
  performer.redraw(g);
  const Tensor first = performer.projection;
  CHECK(test::distance(first, w) > 0.1);
  CHECK(first.dtype() == DType::float64);
  performer.redraw(g);
  CHECK(test::distance(performer.projection, first) > 0.1);
  performer.redraw(same);
  CHECK(test::distance(performer.projection, first) == 0);
  CHECK(Performer(parse_attention("standard"), sizes).projection.size(0) == 11);  // 6·ln 6 = 10.75
  // Long queries and keys do not overflow, in float32 too.
  const auto f = [](const Tensor& x) { return cast(x * 24.0, DType::float32); };
  manual_seed(3);
  const Performer large(parse_attention("laser"), sizes, 32);
  CHECK(all(is_finite(large.forward(f(q), f(k), f(v), {.causal = true}))).item() == 1);
}

TEST_CASE("features of wide heads neither overflow nor vanish") {
  for (const int64_t size : {64, 256, 512}) {
    INFO(size);
    Generator g(4);
    const Tensor q = randn({1, 1, 8, size}, DType::float32, Device::cpu, 0, 1, g),
                 k = randn({1, 1, 8, size}, DType::float32, Device::cpu, 0, 1, g);
    const Performer attention(parse_attention("standard"), {1, size, 8}, 64);
    for (const double y : attention.forward(q, k, ones_like(q), {.causal = true}).values())
      CHECK(y == doctest::Approx(1).epsilon(1e-4));
  }
}

TEST_CASE("Linformer with as many rows as positions and unit projections is attention") {
  manual_seed(2);
  Linformer linformer(parse_attention("softcap=3"), {2, 6, 5}, 5);
  linformer.to(DType::float64);
  for (Parameter* p : {&linformer.key_projection, &linformer.value_projection})
    p->assign(eye(5, -1, DType::float64));
  const Tensor q = test::normal({1, 2, 3, 6}, 1), k = test::normal({1, 2, 5, 6}, 2),
               v = test::normal({1, 2, 5, 6}, 3);
  MixerTrace trace;
  const Tensor y = linformer.forward(q, k, v, {}, nullptr, &trace);
  CHECK(test::distance(y, linear_attention("softcap=3")->forward(q, k, v, {})) < 1e-14);
  CHECK(trace.weights.shape() == Shape{1, 2, 3, 5});
  CHECK(test::distance(linformer.clone().forward(q, k, v, {}), linformer.forward(q, k, v, {})) == 0);
  linformer.value_projection.assign(test::normal({5, 5}, 4));
  CHECK(test::distance(linformer.forward(q, k, v, {}), y) > 0.1);
}

TEST_CASE("16-bit runs are near float64") {
  for (const DType dtype : {DType::bfloat16, DType::float16}) {
    for (const char* name : kAttentions) {
      INFO(std::string(name), ", ", vitrine::name(dtype));
      const Tensor q = test::normal({1, 2, 90, 6}, 1), k = test::normal({1, 1, 90, 6}, 2),
                   v = test::normal({1, 1, 90, 6}, 3);
      const auto attention = linear_attention(name);
      const Tensor want = attention->forward(q, k, v, {.causal = true});
      attention->to(dtype);
      const auto f = [&](const Tensor& x) { return cast(x, dtype); };
      const Tensor got = attention->forward(f(q), f(k), f(v), {.causal = true});
      CHECK(got.dtype() == dtype);
      CHECK(test::distance(got, want, 1) < 0.02);
    }
  }
}
