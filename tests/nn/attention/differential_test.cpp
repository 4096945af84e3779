// Differential attention: its initial λ, its errors, and what a trace shows. The golden cases
// compare values and gradients; the models' tests compare decoding with the full pass.
#include "nn/attention/differential.h"

#include <doctest/doctest.h>

#include <cmath>

#include "core/creation.h"
#include "nn/attention/cache.h"
#include "nn/check_gradients.h"
#include "nn/transformer/stack.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "tests/ops/reference.h"
#include "tests/spec/spec.h"

using namespace vitrine;
using namespace vitrine::nn;

namespace {

const AttentionSizes kSizes{2, 6, 8};

}  // namespace

TEST_CASE("the initial λ of the paper grows with depth, also in a stack") {
  CHECK(DifferentialAttention::initial_for_layer(1) == doctest::Approx(0.2));
  CHECK(DifferentialAttention::initial_for_layer(3) == doctest::Approx(0.8 - 0.6 * std::exp(-0.6)));
  CHECK(DifferentialAttention::initial_for_layer(100) == doctest::Approx(0.8));
  for (const auto& [name, want] : {std::pair{"differential", std::vector{0.2, 0.8 - 0.6 * std::exp(-0.3)}},
                                   {"differential=0.35+laser", std::vector{0.35, 0.35}}}) {
    StackOptions options{.block = {.mixer = {.width = 8, .heads = 2, .name = name}}, .layers = 2};
    Decoder decoder(options);
    std::vector<double> got;
    decoder.apply([&](const std::string&, Module& module) {
      auto* const attention = dynamic_cast<DifferentialAttention*>(&module);
      if (attention == nullptr) return;
      for (Parameter* p : {&attention->first_query, &attention->second_query}) p->assign(zeros({2}));
      got.push_back(attention->lambda().item());  // exp(0) − exp(0) + λ₀
    });
    REQUIRE(got.size() == 2);
    for (size_t i = 0; i < 2; ++i) CHECK(got[i] == doctest::Approx(want[i]));
  }
}

TEST_CASE("gradients of inputs and parameters, with parts, grouped heads and a causal mask") {
  for (const char* name : {"standard", "laser+qk_norm", "entmax"}) {
    INFO(name);
    DifferentialAttention attention(parse_attention(name), kSizes);
    attention.to(DType::float64);
    const GradientReport report = check_gradients(
        attention,
        [&](const std::vector<Tensor>& x) { return attention.forward(x[0], x[1], x[2], {.causal = true}); },
        {test::normal({1, 2, 3, 6}, 1), test::normal({1, 1, 4, 6}, 2), test::normal({1, 1, 4, 6}, 3)});
    CHECK_MESSAGE(report.passed, to_string(report));
  }
}

TEST_CASE("a trace shows the difference of the maps, whose rows sum to 1 − λ") {
  DifferentialAttention attention(parse_attention("standard"), kSizes);
  attention.to(DType::float64);
  MixerTrace trace;
  attention.forward(test::normal({1, 2, 3, 6}, 1), test::normal({1, 2, 4, 6}, 2),
                    test::normal({1, 2, 4, 6}, 3), {}, nullptr, &trace);
  CHECK_FALSE(trace.distribution);
  for (const double total : sum(trace.weights, {-1}).values())
    CHECK(total == doctest::Approx(1 - attention.lambda().item()).epsilon(1e-12));
}

TEST_CASE("a clone has values of its own, and wrong sizes and states are errors") {
  CHECK_THROWS_WITH_AS(DifferentialAttention({}, kSizes, 1.0), doctest::Contains("λ₀ is 1, wanted"), Error);
  DifferentialAttention attention(parse_attention("alibi"), kSizes);
  const DifferentialAttention copy = attention.clone();
  const Tensor q = cast(test::normal({1, 2, 3, 6}, 1), DType::float32);
  CHECK(spec::distance(copy.forward(q, q, q, {}).values(), attention.forward(q, q, q, {}).values(), 1) == 0);
  attention.gain.assign(cast(test::normal({6}, 2), DType::float32));
  CHECK(spec::distance(copy.forward(q, q, q, {}).values(), attention.forward(q, q, q, {}).values(), 1) >
        0.01);
  CHECK(attention.needs_positions());
  CHECK(attention.explain().find("differential: two maps, each fused") == 0);
  CHECK_THROWS_WITH_AS(DifferentialAttention(parse_attention("standard"), {2, 5, 8}),
                       doctest::Contains("the head size is 5, wanted an even number for two maps, such as 6"),
                       Error);
  const Tensor narrow = slice(q, -1, 0, 4);
  CHECK_THROWS_WITH_AS(attention.forward(narrow, narrow, q, {}), doctest::Contains("wanted [B, H, T, 6]"),
                       Error);
  KeyValueCache cache(4);
  CHECK_THROWS_WITH_AS(attention.forward(q, q, q, {.causal = true}, &cache),
                       doctest::Contains("the state is not one of differential attention"), Error);
}
