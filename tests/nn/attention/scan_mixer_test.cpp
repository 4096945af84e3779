// Mixers whose heads are linear recurrences: decoding, padding, the weights of a trace, and errors.
#include "nn/attention/scan_mixer.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "core/creation.h"
#include "core/random.h"
#include "nn/attention/delta.h"
#include "nn/attention/gated_linear.h"
#include "nn/check_gradients.h"
#include "nn/layers/heads.h"
#include "nn/transformer/mixers.h"
#include "ops/activation.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "tests/ops/reference.h"

using namespace vitrine;
using namespace vitrine::nn;

namespace {

std::unique_ptr<Mixer> mixer_of(const std::string& name, int64_t key_heads = 0) {
  manual_seed(4);
  auto mixer = make_mixer({.width = 8, .heads = 2, .key_heads = key_heads, .name = name});
  mixer->to(DType::float64);
  Generator g(3);
  for (Parameter& p : mixer->parameters()) p.assign(randn(p.shape(), DType::float64, Device::cpu, 0, 0.5, g));
  return mixer;
}

const char* const kMixers[] = {"retention", "gated_linear=3", "delta", "delta=gated"};

}  // namespace

TEST_CASE("decoding in steps equals the full pass, and later positions have no part in earlier outputs") {
  for (const char* name : kMixers)
    for (const int64_t key_heads : {1, 2}) {
      INFO(std::string(name), key_heads);
      const auto mixer = mixer_of(name, key_heads);
      const Tensor x = test::normal({2, 70, 8}, 1);
      MixerCall call{.mask = {.causal = true}};
      const Tensor whole = mixer->forward(x, call);
      const auto state = mixer->make_state(2, 70);
      call.state = state.get();
      int64_t at = 0;
      for (const int64_t count : {1, 2, 66, 1}) {
        CHECK(test::distance(mixer->forward(slice(x, 1, at, at + count), call),
                             slice(whole, 1, at, at + count)) < 1e-12);
        at += count;
      }
      const Tensor other = concat({slice(x, 1, 0, 50), test::normal({2, 20, 8}, 2, DType::float64, 30)}, 1);
      call.state = nullptr;
      CHECK(test::distance(slice(mixer->forward(other, call), 1, 0, 50), slice(whole, 1, 0, 50)) < 1e-13);
      CHECK(test::distance(slice(mixer->forward(other, call), 1, 50), slice(whole, 1, 50)) > 1e-3);
    }
}

TEST_CASE("gradients of inputs and parameters, with grouped heads") {
  for (const char* name : kMixers) {
    INFO(std::string(name));
    const auto mixer = mixer_of(name, 1);
    const GradientReport report = check_gradients(
        *mixer,
        [&](const std::vector<Tensor>& x) { return mixer->forward(x[0], {.mask = {.causal = true}}); },
        {test::normal({1, 4, 8}, 1)});
    CHECK_MESSAGE(report.passed, to_string(report));
  }
}

TEST_CASE("a row gives what it gives alone, with padding on the left and with lengths on the right") {
  for (const char* name : kMixers) {
    INFO(std::string(name));
    const auto mixer = mixer_of(name);
    const Tensor x = test::normal({1, 5, 8}, 1), other = test::normal({1, 3, 8}, 2);
    const MixerCall causal{.mask = {.causal = true}};
    const Tensor alone = mixer->forward(x, causal);
    MixerCall left = causal, right = causal;
    left.mask.allowed = tensor({0, 0, 0, 1, 1, 1, 1, 1}, {1, 1, 1, 8}, DType::boolean);
    MixerTrace trace;
    left.trace = &trace;
    CHECK(test::distance(slice(mixer->forward(concat({other, x}, 1), left), 1, 3), alone) < 1e-12);
    for (const double weight : slice(trace.weights, 3, 0, 3).values()) CHECK(weight == 0);
    right.lengths = index_tensor(std::vector<int64_t>{5}, {1});
    const Tensor y = mixer->forward(concat({x, other}, 1), right);
    CHECK(test::distance(slice(y, 1, 0, 5), alone) < 1e-13);
    // A hidden position changes the state by its decay alone, and plain `delta` has none.
    const auto state = mixer->make_state(1, 8), short_state = mixer->make_state(1, 8);
    right.state = state.get();
    mixer->forward(concat({x, other}, 1), right);
    CHECK(state->length() == 8);
    if (std::string(name) != "delta") continue;
    right.state = short_state.get(), right.lengths = {};
    mixer->forward(x, right);
    CHECK(test::distance(*state->tensors()[0], *short_state->tensors()[0]) < 1e-14);
  }
}

TEST_CASE("gated linear attention and both delta rules are their formulas, position by position") {
  for (const char* name : {"gated_linear=3", "delta", "delta=gated"}) {
    INFO(std::string(name));
    const auto mixer = mixer_of(name);
    const auto& scan = dynamic_cast<const ScanMixer&>(*mixer);
    const auto* const gla = dynamic_cast<const GatedLinear*>(mixer.get());
    const auto* const delta = dynamic_cast<const DeltaNet*>(mixer.get());
    const int64_t time = 6;
    const Tensor x = test::normal({1, time, 8}, 1);
    const auto qkv = split(scan.query_key_value.forward(x), 8, -1);
    std::vector<Tensor> heads;
    for (int64_t h = 0; h < 2; ++h) {
      const auto row = [&](const Tensor& all, int64_t t) {  // [1, 4]
        return slice(slice(select(all, 0, 0), 0, t, t + 1), 1, 4 * h, 4 * h + 4);
      };
      const auto unit = [](const Tensor& y) { return silu(y) / norm(silu(y)); };
      Tensor state = zeros({4, 4}, DType::float64);
      std::vector<Tensor> rows;
      for (int64_t t = 0; t < time; ++t) {
        Tensor q = row(qkv[0], t), k = row(qkv[1], t);
        const Tensor v = row(qkv[2], t);
        if (gla) {
          const Tensor z = row(gla->decay_out.forward(gla->decay_in.forward(x)), t);
          state = state * transpose(pow(sigmoid(z), 1.0 / 16)) + matmul(transpose(k), v);
        } else {
          q = unit(q), k = unit(k);
          const auto of_head = [&](const Linear& layer) {
            return select(select(select(layer.forward(x), 0, 0), 0, t), 0, h);
          };
          if (delta->decay)
            state = state * exp(-exp(select(delta->log_rate, 0, h)) * softplus(of_head(*delta->decay)));
          const Tensor beta = sigmoid(of_head(delta->beta));
          state = state + beta * matmul(transpose(k), v - matmul(k, state));
        }
        const Tensor o = matmul(q, state) * 0.5;
        rows.push_back(gla ? layer_norm(o) : rms_norm(o));
      }
      heads.push_back(concat(rows, 0));
    }
    Tensor y = unsqueeze(concat(heads, 1), 0);
    if (scan.gate) y = y * silu(scan.gate->forward(x));
    CHECK(test::distance(mixer->forward(x, {.mask = {.causal = true}}), scan.out.forward(y)) < 1e-12);
  }
}

TEST_CASE("what a linear recurrence has no use for is refused with its reason") {
  const auto refused = [](const std::function<void()>& f, const char* reason) {
    CHECK_THROWS_WITH_AS(f(), doctest::Contains(reason), Error);
  };
  refused([] { make_mixer({.name = "delta", .causal = false}); }, "later ones cannot be seen");
  refused([] { make_mixer({.width = 6, .heads = 2, .name = "retention"}); },
          "head size is 3, wanted an even one, such as 4");
  refused([] { make_mixer({.width = 6, .heads = 4, .name = "delta"}); }, "delta: the width 6 is no multiple");
  refused([] { parse_mixer("delta=open"); }, "delta: kind is open, wanted plain or gated");
  refused([] { parse_mixer("retention+rotary"); }, "retention takes no part rotary");
  const auto mixer = mixer_of("retention");
  const Tensor y = test::normal({1, 3, 8}, 1);
  refused([&] { mixer->forward(y); }, "retention: the mask is not causal");
  refused([&] { mixer->forward(y, {.mask = {.causal = true}, .source = y}); }, "a source has no place");
  refused([&] { mixer->forward(slice(y, 2, 1), {.mask = {.causal = true}}); }, "wanted [B, T, 8]");
  const Tape tape;
  const auto state = mixer->make_state(1, 3);
  refused([&] { mixer->forward(y, {.mask = {.causal = true}, .state = state.get()}); }, "under Tape::Pause");
  CHECK(mixer_of("delta")->explain().find("a state [4, 4] per head") != std::string::npos);
  CHECK(cross_attention_of({.width = 8, .heads = 2, .name = "delta=gated"}) == "standard");
}

TEST_CASE("the weights of a trace make the outputs of a mixer") {
  for (const char* name : kMixers) {
    INFO(std::string(name));
    const auto mixer = mixer_of(name, 1);
    const auto& scan = dynamic_cast<const ScanMixer&>(*mixer);
    const Tensor x = test::normal({2, 9, 8}, 1);
    MixerTrace trace;
    const Tensor y = mixer->forward(x, {.mask = {.causal = true}, .trace = &trace});
    const Tensor o = matmul(trace.weights, trace.v);
    Tensor joined = join_heads(std::string(name).starts_with("delta") ? rms_norm(o) : layer_norm(o));
    if (scan.gate) joined = joined * silu(scan.gate->forward(x));
    CHECK(test::distance(scan.out.forward(joined), y) < 1e-12);
    for (const double above : triu(trace.weights, 1).values()) CHECK(above == 0);
    CHECK_FALSE(trace.distribution);
  }
  // Retention: w_ij = γ^(i − j)·q_i·k_j/√D with γ = 1 − 2^(−5 − h).
  MixerTrace trace;
  mixer_of("retention")->forward(test::normal({1, 4, 8}, 1), {.mask = {.causal = true}, .trace = &trace});
  const Tensor products = matmul(trace.q, transpose(trace.k)) * 0.5;
  for (int h = 0; h < 2; ++h) {
    const auto at = [&](const Tensor& w) { return select(select(select(w, 1, h), 1, 3), 1, 1).item(); };
    CHECK(at(trace.weights) ==
          doctest::Approx(at(products) * std::pow(1 - std::exp2(-5 - h), 2)).epsilon(1e-12));
  }
  // The delta rule with unit keys: a key that is written twice with β = 1 gives its last value.
  DeltaNet delta({.width = 4, .heads = 1, .bias = Bias::no});
  delta.to(DType::float64);
  delta.beta.weight.assign(full({1, 4}, 50, DType::float64));
  delta.query_key_value.weight.assign(
      concat({eye(4, -1, DType::float64), eye(4, -1, DType::float64), test::normal({4, 4}, 5)}, 0));
  const Tensor x = concat({full({1, 1, 4}, 1, DType::float64), full({1, 1, 4}, 2, DType::float64)}, 1);
  delta.forward(x, {.mask = {.causal = true}, .trace = &trace});
  CHECK(std::abs(select(select(trace.weights, 2, 1), 2, 0).item()) < 1e-12);
  CHECK(select(select(trace.weights, 2, 1), 2, 1).item() == doctest::Approx(0.5));
}

TEST_CASE("16-bit runs are near float64") {
  for (const DType dtype : {DType::bfloat16, DType::float16})
    for (const char* name : kMixers) {
      INFO(std::string(name), ", ", vitrine::name(dtype));
      const auto mixer = mixer_of(name);
      const Tensor x = test::normal({1, 40, 8}, 1), want = mixer->forward(x, {.mask = {.causal = true}});
      mixer->to(dtype);
      const Tensor got = mixer->forward(cast(x, dtype), {.mask = {.causal = true}});
      CHECK(got.dtype() == dtype);
      CHECK(test::distance(got, want, 1) < 0.1);
    }
}
