// Reversible layers: gradients of stored activations, memory, dropout, and stacks of blocks.
#include "nn/transformer/reversible.h"

#include <doctest/doctest.h>

#include "core/creation.h"
#include "core/memory/allocator.h"
#include "core/random.h"
#include "core/recompute.h"
#include "nn/check_gradients.h"
#include "nn/models/gpt.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/loss.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "tests/nn/transformer/seeded.h"
#include "tests/ops/reference.h"

using namespace vitrine;
using namespace vitrine::nn;

namespace {

StackOptions reversible_options(const char* mixer, double dropout = 0, int64_t layers = 3) {
  return {.block = {.mixer = {.width = 8, .heads = 2, .context = 8, .name = mixer, .out_deviation = 0.3},
                    .dropout = dropout,
                    .drop_path = dropout},
          .layers = layers,
          .reversible = true};
}

/// The loss, then the gradients of x and of all parameters, by the node or by ordinary ops. Traces
/// ask for ordinary ops.
std::vector<Tensor> gradients(Decoder& stack, const Tensor& x, bool stored) {
  manual_seed(9);
  std::vector<Tensor> xs = {x};
  for (const Parameter& p : stack.parameters()) xs.push_back(p);
  Tape tape;
  tape.watch(x);
  std::vector<MixerTrace> traces;
  const Tensor y = stack.forward(x, {.traces = stored ? &traces : nullptr});
  const Tensor loss = sum(square(y) * y);
  if (!stored) CHECK(tape.info(0).op == std::string("reversible"));
  std::vector<Tensor> result = tape.gradient(loss, xs);
  result.push_back(loss);
  return result;
}

}  // namespace

TEST_CASE(
    "gradients are those of stored activations, also with dropout and of a weight that all layers share") {
  for (const auto& choice : {std::pair{"standard", 0.0}, {"laser+rotary", 0.3}, {"gru", 0.3}}) {
    INFO(std::string(choice.first));
    Decoder stack = test::seeded<Decoder>(reversible_options(choice.first, choice.second));
    const Tensor x = test::normal({2, 5, 8}, 1);
    const auto got = gradients(stack, x, false), want = gradients(stack, x, true);
    REQUIRE(got.size() == want.size());
    for (size_t i = 0; i < got.size(); ++i) CHECK(test::distance(got[i], want[i]) < 1e-10);
  }
  const Tensor w = test::normal({3, 3}, 1), x1 = test::normal({2, 3}, 2), x2 = test::normal({2, 3}, 3),
               unused = test::normal({3}, 4);
  const auto run = [&](const auto& run_layers) {
    const auto f = [w](const Tensor& h) { return tanh(matmul(h, w)); };
    const auto g = [w, x1](const Tensor& h) { return sin(matmul(h, w)) * x1; };  // reads x1 too
    Tape tape;
    for (const Tensor& t : {w, x1, x2, unused}) tape.watch(t);
    const auto y = run_layers(std::vector<ReversibleLayer>(4, {f, g}), x1, x2);
    return tape.gradient(sum(y.first * w.values()[0]) + sum(square(y.second)) + sum(w * w),
                         {w, x1, x2, unused});
  };
  const auto got = run(reversible), want = run(residual_layers);
  for (size_t i = 0; i < got.size(); ++i) CHECK(test::distance(got[i], want[i]) < 1e-12);
}

TEST_CASE("the memory of a training step does not depend on the number of layers") {
  const Tensor w = test::normal({16, 16}, 1), x = test::normal({512, 16}, 2);
  const auto peak = [&](const auto& run_layers, size_t depth) {
    const auto f = [w](const Tensor& h) { return tanh(matmul(h, w)); };
    Tape tape;
    tape.watch(w);
    const size_t before = memory::statistics().now;
    memory::reset_peak();
    const auto y = run_layers(std::vector<ReversibleLayer>(depth, {f, f}), x, x);
    tape.gradient(sum(y.first * y.second), {w});
    return memory::statistics().peak - before;
  };
  const size_t few = peak(reversible, 2), many = peak(reversible, 32);
  CHECK(many <= few + 4096);  // a few numbers per layer, no activations of 64 KB
  CHECK(peak(residual_layers, 32) > 5 * few);
}

TEST_CASE(
    "a stack: decoding in steps, encoders, masks, modes, recomputation, second derivatives and copies") {
  Decoder stack = test::seeded<Decoder>(reversible_options("standard"));
  const Tensor x = test::normal({2, 5, 8}, 1), whole = stack.forward(x);
  const auto state = stack.make_state(2, 5);
  for (int64_t t = 0; t < 5; ++t)
    CHECK(test::distance(stack.forward(slice(x, 1, t, t + 1), {.state = state.get()}),
                         slice(whole, 1, t, t + 1)) < 1e-12);
  CHECK(test::distance(stack.clone().forward(x), whole) == 0);
  const Encoder encoder = test::seeded<Encoder>(reversible_options("standard"));
  const Tensor lengths = index_tensor(std::vector<int64_t>{5, 3}, {2});
  const Tensor alone = encoder.forward(slice(slice(x, 0, 1, 2), 1, 0, 3));
  CHECK(test::distance(slice(slice(encoder.forward(x, {.lengths = lengths}), 0, 1, 2), 1, 0, 3), alone) <
        1e-12);
  CHECK(test::distance(slice(encoder.forward(x), 1, 0, 1), slice(whole, 1, 0, 1)) > 1e-3);
  // A row with padding before it is as it is alone.
  const Tensor padded = stack.forward(x, {.padding = index_tensor(std::vector<int64_t>{0, 2}, {2})});
  CHECK(test::distance(slice(slice(padded, 0, 1, 2), 1, 2), stack.forward(slice(slice(x, 0, 1, 2), 1, 2))) <
        1e-12);
  StackOptions ordinary = reversible_options("standard");
  ordinary.reversible = false;
  CHECK(test::distance(test::seeded<Decoder>(ordinary).forward(x), whole) > 1e-3);
  const auto gradient_of = [&](const std::function<Tensor()>& f, int order) {
    Tape tape{{.order = order}};
    tape.watch(x);
    const Tensor y = f();
    stack.eval();  // has no effect on the second run
    const Tensor gradient = tape.gradient(sum(square(y)), {x})[0];
    stack.train();
    return gradient;
  };
  const Tensor want = gradient_of([&] { return stack.forward(x); }, 1);
  CHECK(test::distance(gradient_of([&] { return recompute(stack, [&] { return stack.forward(x); }); }, 1),
                       want) < 1e-12);
  CHECK(test::distance(gradient_of([&] { return stack.forward(x); }, 2), want) < 1e-11);
}

TEST_CASE("what does not fit, and a weight that was overwritten before the second run, are errors") {
  Decoder stack = test::seeded<Decoder>(reversible_options("standard", 0, 1));
  const Tensor x = test::normal({1, 2, 8}, 1);
  StackOptions post = reversible_options("standard"), cross = post, experts = post, again = post;
  post.block.residual = Residual::post;
  cross.block.cross = true;
  experts.block.experts.count = 2;
  again.recompute_blocks = true;
  CHECK_THROWS_WITH_AS(Decoder{post}, doctest::Contains("reversible: wanted pre-norm blocks"), Error);
  CHECK_THROWS_WITH_AS(Decoder{cross}, doctest::Contains("they come with a cross-attention"), Error);
  CHECK_THROWS_WITH_AS(Decoder{experts}, doctest::Contains("they come with experts"), Error);
  CHECK_THROWS_WITH_AS(Decoder{again}, doctest::Contains("they come with blocks that are computed again"),
                       Error);
  CHECK_THROWS_WITH_AS(Gpt({.residual = Residual::post, .reversible = true}),
                       doctest::Contains("reversible: wanted pre-norm blocks"), Error);
  CHECK_THROWS_WITH_AS(stack.forward(x, {.source = x}), doctest::Contains("no cross-attention"), Error);
  StateList foreign;
  CHECK_THROWS_WITH_AS(stack.forward(x, {.state = &foreign}), doctest::Contains("not one of 1 blocks"),
                       Error);
  CHECK_THROWS_WITH_AS(reversible({}, x, slice(x, 1, 0, 1)),
                       doctest::Contains("wanted one shape and one dtype"), Error);
  Tape tape;
  const Tensor loss = sum(stack.forward(x));
  {
    const Tape::Pause pause;
    Parameter& w = stack.blocks[0]->feed_forward_norm.weight;
    w.assign(w.master() * 2.0);
  }
  CHECK_THROWS_WITH_AS(tape.backward(loss), doctest::Contains("overwritten"), Error);
}
