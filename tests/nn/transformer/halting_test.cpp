// Adaptive computation time and the universal Transformer.
#include "nn/transformer/halting.h"

#include <doctest/doctest.h>

#include "core/creation.h"
#include "core/random.h"
#include "core/tape.h"
#include "nn/check_gradients.h"
#include "nn/models/gpt.h"
#include "nn/training/tasks/language_modeling.h"
#include "nn/transformer/stack.h"
#include "ops/elementwise.h"
#include "ops/loss.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "tests/nn/transformer/seeded.h"
#include "tests/ops/reference.h"

using namespace vitrine;
using namespace vitrine::nn;

namespace {

UniversalOptions universal_options(HaltingKind kind, bool causal = true) {
  return {.block = {.mixer = {.width = 8, .heads = 2, .out_deviation = 0.3, .causal = causal}, .hidden = 8},
          .halting = {.kind = kind, .threshold = 0.9, .max_steps = 4}};
}

UniversalTransformer universal_transformer(const UniversalOptions& o) {
  manual_seed(3);
  UniversalTransformer model(o);
  model.to(DType::float64);
  // Positions take different numbers of steps.
  const bool graves = o.halting.kind == HaltingKind::graves;
  model.halting.unit.weight.assign(test::normal({1, 8}, 5) * (graves ? 0.5 : 2.0));
  model.halting.unit.bias.assign(full({1}, graves ? -1 : -0.5, DType::float64));
  return model;
}

}  // namespace

TEST_CASE("halting by hand: probabilities 0.5, 0.3, 0.4 halt at step 3 with the rest 0.2") {
  const double p[] = {0.5, 0.3, 0.4};
  for (const HaltingKind kind : {HaltingKind::graves, HaltingKind::universal}) {
    INFO(name_of(kind));
    int64_t n = 0;
    const Halted h = adaptive_computation(
        zeros({1, 1}, DType::float64),
        [&](const Tensor& s, int64_t step) { return s * 0.0 + static_cast<double>(step); },
        [&](const Tensor&) { return full({1}, p[n++], DType::float64); }, {.kind = kind});
    CHECK(n == 3);  // all positions have halted
    CHECK(h.steps.item() == 3);
    CHECK(h.ponder.item() == doctest::Approx(3.2));
    // 0.5·1 + 0.3·2 + 0.2·3, or the moving result ((0.5·1)·0.7 + 0.3·2)·0.8 + 0.2·3.
    CHECK(h.state.item() == doctest::Approx(kind == HaltingKind::graves ? 1.7 : 1.36));
  }
}

TEST_CASE("a position that never halts takes all steps: graves gives the rest to the last, universal none") {
  for (const HaltingKind kind : {HaltingKind::graves, HaltingKind::universal}) {
    const Halted h = adaptive_computation(
        ones({1, 1}, DType::float64), [](const Tensor& s, int64_t) { return s; },
        [](const Tensor&) { return full({1}, 0.1, DType::float64); }, {.kind = kind, .max_steps = 3});
    CHECK(h.steps.item() == 3);
    CHECK(h.ponder.item() == doctest::Approx(kind == HaltingKind::graves ? 3.8 : 3));
    CHECK(h.state.item() == doctest::Approx(kind == HaltingKind::graves ? 1 : 1 - 0.9 * 0.9 * 0.9));
  }
}

TEST_CASE("a halted position keeps its result, however long the other ones go on") {
  for (const HaltingKind kind : {HaltingKind::graves, HaltingKind::universal}) {
    Halting halting(2, {.kind = kind, .threshold = 0.9, .max_steps = 6});
    halting.to(DType::float64);
    halting.unit.weight.assign(cast(tensor({4, 0}, {1, 2}), DType::float64));
    halting.unit.bias.assign(full({1}, -1, DType::float64));
    const auto step = [](const Tensor& s, int64_t) { return sin(s + 0.3); };
    const Tensor quick = cast(tensor({2, 1}, {1, 2}), DType::float64),
                 slow = cast(tensor({-1, 1}, {1, 2}), DType::float64);
    const Halted alone = halting.forward(quick, step);
    const Halted both = halting.forward(reshape(cast(tensor({2, 1, -1, 1}), DType::float64), {2, 2}), step);
    CHECK(test::distance(slice(both.state, 0, 0, 1), alone.state) < 1e-15);
    CHECK(both.steps.values()[0] == alone.steps.item());
    CHECK(both.steps.values()[1] > alone.steps.item());
    CHECK(test::distance(slice(both.state, 0, 1, 2), halting.forward(slow, step).state) < 1e-15);
    CHECK(test::distance(halting.clone().forward(slow, step).ponder, halting.forward(slow, step).ponder) ==
          0);
  }
}

TEST_CASE("padding does not count in the auxiliary loss") {
  Halting halting(2, {.kind = HaltingKind::graves, .max_steps = 6, .ponder = 1});
  halting.to(DType::float64);
  halting.unit.weight.assign(cast(tensor({4, 0}, {1, 2}), DType::float64));
  const auto step = [](const Tensor& s, int64_t) { return sin(s + 0.3); };
  const Tensor x = test::normal({2, 3, 2}, 8),
               real = tensor(std::vector<uint8_t>{1, 0, 0, 1, 1, 0}, {2, 3}, DType::boolean);
  const Halted h = halting.forward(x, step, real);
  const std::vector<double> ponder = h.ponder.values();
  CHECK(h.auxiliary.item() == doctest::Approx((ponder[0] + ponder[3] + ponder[4]) / 3));
  CHECK(halting.forward(x, step).auxiliary.item() == doctest::Approx(mean(h.ponder).item()));
  CHECK(h.auxiliary.item() != doctest::Approx(mean(h.ponder).item()));
  CHECK_THROWS_WITH_AS(halting.forward(select(x, 0, 0), step, real),
                       doctest::Contains("wanted one bool for each position of [3, 2]"), Error);
}

TEST_CASE("universal Transformer: gradients, copies, causality, and more steps where the unit says so") {
  for (const HaltingKind kind : {HaltingKind::graves, HaltingKind::universal}) {
    INFO(name_of(kind));
    UniversalTransformer model = universal_transformer(universal_options(kind));
    const Tensor x = test::normal({2, 4, 8}, 8), weight = test::normal({2, 4, 8}, 2);
    const Halted h = model.forward(x);
    CHECK(h.state.shape() == x.shape());
    CHECK(h.ponder.shape() == Shape{2, 4});
    CHECK(max(h.steps).item() > min(h.steps).item());
    CHECK(test::distance(model.clone().forward(x).state, h.state) == 0);
    const auto report = check_gradients(model,
                                        [&](const std::vector<Tensor>& t) {
                                          const Halted y = model.forward(t[0]);
                                          return sum(y.state * weight) + mean(y.ponder);
                                        },
                                        {x}, {.probe = Probe::directions});
    CHECK_MESSAGE(report.passed, to_string(report));
    // Later positions have no effect on earlier ones, and row 0 none on row 1.
    const Tensor prefix = model.forward(slice(x, 1, 0, 2)).state;
    CHECK(test::distance(prefix, slice(h.state, 1, 0, 2)) < 1e-13);
    CHECK(test::distance(model.forward(slice(x, 0, 1, 2)).state, slice(h.state, 0, 1, 2)) < 1e-13);
    CHECK(
        test::distance(universal_transformer(universal_options(kind, false)).forward(slice(x, 1, 0, 2)).state,
                       slice(h.state, 1, 0, 2)) > 1e-3);
    model.halting.unit.weight.assign(zeros({1, 8}, DType::float64));
    model.halting.unit.bias.assign(full({1}, 5, DType::float64));
    CHECK(model.forward(x).steps.values() == std::vector<double>(8, 1));
  }
}

TEST_CASE("universal Transformer: every step is the block on the state plus the coordinates of that step") {
  UniversalOptions o = universal_options(HaltingKind::graves);
  o.halting.max_steps = 2;
  UniversalTransformer model = universal_transformer(o);
  model.halting.unit.weight.assign(zeros({1, 8}, DType::float64));
  model.halting.unit.bias.assign(zeros({1}, DType::float64));  // probability ½, then the rest
  const auto step = [&](const Tensor& s, int64_t n) {
    return model.block.forward(s + universal_coordinates(0, 3, n, s), {.mask = {.causal = true}});
  };
  const Tensor x = test::normal({1, 3, 8}, 8), first = step(x, 1);
  CHECK(test::distance(model.forward(x).state, (first + step(first, 2)) * 0.5) < 1e-14);
  CHECK(test::distance(step(first, 2), step(first, 1)) > 1e-3);
}

TEST_CASE("wrong arguments of halting and of the universal Transformer") {
  const auto run = [](HaltingOptions o, const Shape& p) {
    adaptive_computation(
        ones({2, 3}), [](const Tensor& s, int64_t) { return s; }, [&](const Tensor&) { return full(p, 0.5); },
        o);
  };
  CHECK_THROWS_WITH_AS(run({.max_steps = 0}, {2}), doctest::Contains("max_steps is 0"), Error);
  CHECK_THROWS_WITH_AS(run({.threshold = 1}, {2}), doctest::Contains("the threshold is 1"), Error);
  CHECK_THROWS_WITH_AS(run({}, {2, 1}), doctest::Contains("the probability is [2, 1]"), Error);
  UniversalOptions o = universal_options(HaltingKind::graves);
  o.block.cross = true;
  CHECK_THROWS_WITH_AS(UniversalTransformer{o}, doctest::Contains("a cross-attention or experts"), Error);
  o.block.cross = false, o.block.norm = NormKind::power, o.recompute = true;
  CHECK_THROWS_WITH_AS(UniversalTransformer{o}, doctest::Contains("recompute with the norm power"), Error);
  o.block.norm = NormKind::layer, o.block.mixer.width = 9, o.block.mixer.heads = 3;
  CHECK_THROWS_WITH_AS(UniversalTransformer{o}, doctest::Contains("the width 9 is odd"), Error);
  const UniversalTransformer model = universal_transformer(universal_options(HaltingKind::graves));
  KeyValueCache cache;
  CHECK_THROWS_WITH_AS(model.forward(test::normal({1, 2, 8}, 8), {.state = &cache}),
                       doctest::Contains("the state is not one of 4 steps"), Error);
}

TEST_CASE("universal Transformer: decoding gives the full pass, though positions halt at other steps") {
  for (const HaltingKind kind : {HaltingKind::graves, HaltingKind::universal}) {
    INFO(name_of(kind));
    const UniversalTransformer model = universal_transformer(universal_options(kind));
    const Tensor x = test::normal({2, 6, 8}, 8);
    std::vector<MixerTrace> traces;
    const Halted h = model.forward(x, {}, &traces);
    REQUIRE(min(h.steps).item() < max(h.steps).item());
    CHECK(static_cast<double>(traces.size()) == max(h.steps).item());  // none after all have halted
    const auto state = model.make_state(2, 6);
    for (int64_t t = 0; t < 6; ++t) {
      const Halted step = model.forward(slice(x, 1, t, t + 1), {.state = state.get()}, &traces);
      CHECK(traces.size() == 4);
      CHECK(test::distance(step.state, slice(h.state, 1, t, t + 1)) < 1e-13);
      CHECK(test::distance(step.ponder, slice(h.ponder, 1, t, t + 1)) < 1e-13);
    }
  }
}

TEST_CASE("a universal stack has one block, and padding before a row moves its coordinates") {
  StackOptions o = {.block = universal_options(HaltingKind::graves).block, .layers = 3, .universal = true};
  o.block.mixer.context = 8;
  Decoder stack = test::seeded<Decoder>(o);
  CHECK(stack.blocks.empty());
  CHECK(stack.state_dict().count("blocks.0.feed_forward.up.weight") == 1);
  const Tensor x = test::normal({2, 6, 8}, 8);
  CHECK(test::distance(stack.clone().forward(x), stack.forward(x)) == 0);
  const Tensor padded = stack.forward(x, {.padding = index_tensor(std::vector<int64_t>{0, 2}, {2})});
  CHECK(test::distance(slice(padded, 0, 0, 1), stack.forward(slice(x, 0, 0, 1))) < 1e-13);
  CHECK(test::distance(slice(slice(padded, 0, 1, 2), 1, 2, 6),
                       stack.forward(slice(slice(x, 0, 1, 2), 1, 2, 6))) < 1e-13);
  std::vector<MixerTrace> traces;
  Halted halted;
  stack.forward(x, {.traces = &traces, .halted = &halted});
  CHECK(halted.steps.shape() == Shape{2, 6});
  CHECK(static_cast<double>(traces.size()) == max(halted.steps).item());
  const auto wrong = [&](const char* message, const auto& change) {
    StackOptions other = o;
    change(other);
    CHECK_THROWS_WITH_AS(Decoder{other}, doctest::Contains(message), Error);
  };
  wrong("it is reversible", [](StackOptions& s) { s.reversible = true; });
  wrong("it is one with a cross-attention", [](StackOptions& s) { s.block.cross = true; });
  wrong("it is one of experts", [](StackOptions& s) { s.block.experts.count = 2; });
  wrong("it is one of Residual::admin", [](StackOptions& s) { s.block.residual = Residual::admin; });
}

TEST_CASE("a universal language model pays for its steps in training, and not in evaluation") {
  manual_seed(5);
  Gpt model(
      {.vocabulary = 7, .context = 6, .width = 8, .layers = 3, .heads = 2, .universal = true, .ponder = 0.5});
  model.to(DType::float64);
  CHECK(!model.positions.defined());
  const Tensor ids = index_tensor(std::vector<int64_t>{1, 2, 3, 4, 5, 6}, {1, 6});
  const auto loss = [&] { return training::next_token_loss(model, {ids, ids}).item(); };
  const auto plain = [&](Halted& halted) {
    return cross_entropy(model.forward(ids, {.halted = &halted}), ids).item();
  };
  Halted halted;
  CHECK(loss() == doctest::Approx(plain(halted) + 0.5 * mean(halted.ponder).item()).epsilon(1e-14));
  CHECK(halted.ponder.values()[0] > 1);
  model.eval();
  CHECK(loss() == doctest::Approx(plain(halted)).epsilon(1e-14));
  CHECK(!halted.auxiliary.defined());
  CHECK(model.parameter_count() <
        Gpt({.vocabulary = 7, .context = 6, .width = 8, .layers = 3, .heads = 2}).parameter_count());
}
