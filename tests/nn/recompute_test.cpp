// Modules with recomputation: dropout, buffers and modes are the same as in the plain run.
#include "core/recompute.h"

#include <doctest/doctest.h>

#include "core/creation.h"
#include "core/tape.h"
#include "nn/attention/composed.h"
#include "nn/layers/dropout.h"
#include "nn/layers/linear.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"

using namespace vitrine;
using namespace vitrine::nn;

namespace {

/// A layer with dropout. Training updates a running mean, which evaluation subtracts.
class Centred : public Module {
 public:
  Centred() : linear(5, 5, Bias::yes, 1), dropout(0.4), seen(zeros({5})) {}
  Tensor forward(const Tensor& x) {
    const Tensor h = linear.forward(x);
    if (!training()) return dropout.forward(h - seen);
    if (!recomputing()) {
      const Tape::Pause pause;
      scale_in_place(seen, 0.5);
      add_in_place(seen, mean(h, {0}), 0.5);
    }
    return dropout.forward(h);
  }
  void fields(Fields& f) override {
    f("linear", linear);
    f("dropout", dropout);
    f("seen", seen);
  }
  Linear linear;
  Dropout dropout;
  Tensor seen;
};

/// Two such layers, each recomputed or not.
class Two : public Module {
 public:
  Tensor forward(const Tensor& x, bool each) {
    const auto layer = [each](Centred& m, const Tensor& h) {
      return each ? recompute(m, [&m, h] { return m.forward(h); }) : m.forward(h);
    };
    return layer(second, tanh(layer(first, x)));
  }
  void fields(Fields& f) override {
    f("first", first);
    f("second", second);
  }
  Centred first, second;
};

using Values = std::vector<std::vector<double>>;

/// The loss, buffers, gradients and next random numbers of a step. All modes are `later` before the
/// backward pass.
Values step(bool whole, bool each, bool training, bool dropout, bool later) {
  manual_seed(11);
  Two model;
  model.first.seen = randn({5});
  const Tensor x = randn({3, 5});
  model.train(training);
  model.second.dropout.train(dropout);
  Tape tape;
  const auto forward = [&] { return model.forward(x, each); };
  const Tensor loss = sum(square(whole ? recompute(model, forward) : forward()));
  model.train(later);
  tape.backward(loss);
  model.apply([later](const std::string& path, Module& m) { CHECK_MESSAGE(m.training() == later, path); });
  Values result = {{loss.item()}, randn({3}).values()};
  for (const auto& [name, buffer] : model.named_buffers()) result.push_back(buffer.values());
  for (const Parameter& p : model.parameters()) result.push_back(p.grad().values());
  return result;
}

}  // namespace

TEST_CASE(
    "a step under checkpoints has the bits of the plain one: dropout, buffers, and modes that change in "
    "between") {
  for (const bool training : {true, false})
    for (const bool dropout : {true, false})
      for (const bool later : {true, false}) {
        CAPTURE(training);
        CAPTURE(dropout);
        CAPTURE(later);
        const Values plain = step(false, false, training, dropout, later);
        CHECK(step(true, false, training, dropout, later) == plain);
        CHECK(step(false, true, training, dropout, later) == plain);
        CHECK(step(true, true, training, dropout, later) == plain);
      }
}

TEST_CASE("attention under a learned bias takes the same path in both runs of a checkpoint") {
  const nn::ComposedAttention attention(parse_attention("laser"), 2, 4, 8);
  const auto step = [&](bool recomputed) {
    manual_seed(3);
    const Tensor x = randn({2, 2, 5, 4});
    Tensor bias = randn({2, 5, 5});
    bias.requires_grad();
    Tape tape;
    const auto f = [&] { return attention.forward(x, x, x, {.causal = true, .bias = bias}); };
    const Tensor y = recomputed ? recompute(f) : f();
    tape.backward(sum(square(y)));
    return std::pair(y.values(), bias.grad().values());
  };
  CHECK(step(true) == step(false));
}
