// check_tape on language models: it finds a mistake that is planted in one node, and it reports no
// mistake in a correct tape.
#include "core/gradcheck/check_tape.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "ops/loss.h"
#include "tests/environment.h"
#include "tests/nn/mechanisms.h"
#include "tests/nn/models/tiny_gpt.h"

using namespace vitrine;

namespace {

/// The number of tapes with a mistake, and of correct tapes, out of 100, that are tried.
uint64_t count() { return static_cast<uint64_t>(test::from_environment("VITRINE_TAPE_CHECKS", 5)); }

/// The tape of a loss of a two-layer model; n is the seed of the model.
struct Recorded {
  explicit Recorded(uint64_t n) {
    const auto mechanisms = test::mechanisms();
    auto options = test::tiny_gpt(mechanisms[n % mechanisms.size()]);
    options.dropout = n % 3 == 2 ? 0.2 : 0;
    options.norm = n % 4 == 3 ? nn::NormKind::rms : nn::NormKind::layer;
    options.residual = n % 5 == 4 ? nn::Residual::post : nn::Residual::pre;
    options.recompute_blocks = n % 7 == 6;
    manual_seed(n);
    model = std::make_unique<nn::Gpt>(options);
    model->to(DType::float64);
    tape = std::make_unique<Tape>(TapeOptions{.checkable = true});
    const Tensor ids = test::ids(2, 6);
    loss = cross_entropy(model->forward(ids), ids);
  }
  std::unique_ptr<nn::Gpt> model;
  std::unique_ptr<Tape> tape;
  Tensor loss;
};

enum class Mistake { sign, factor, zero, transposed, reversed };

/// The tensor with its last two axes transposed but the old shape, or with its elements in reverse
/// order.
Tensor rearranged(const Tensor& x, Mistake mistake) {
  const std::vector<double> from = x.values();
  std::vector<double> to(from.rbegin(), from.rend());
  const int rank = x.rank();
  if (mistake == Mistake::transposed && rank >= 2) {
    const int64_t rows = x.shape()[rank - 2], columns = x.shape()[rank - 1];
    for (int64_t i = 0; i < x.numel(); ++i) {
      const int64_t matrix = i / (rows * columns), row = i / columns % rows, column = i % columns;
      to[static_cast<size_t>((matrix * columns + column) * rows + row)] = from[static_cast<size_t>(i)];
    }
  }
  return tensor(to, x.shape(), x.dtype());
}

/// A mistake in one node. Its number selects the node, the input and the kind in turn. `effect` is
/// the largest change, relative to the largest element of the gradient.
struct Planted {
  Mistake mistake;
  size_t node = 0, input = 0;
  double effect = 0;
};

void plant(Grad& grad, Mistake mistake) {
  if (!grad.defined()) return;
  switch (mistake) {
    case Mistake::sign: grad = grad.scaled(-1); break;
    case Mistake::factor: grad = grad.scaled(1.01); break;
    case Mistake::zero: grad = grad.scaled(0); break;
    default:
      if (grad.value().defined()) grad = Grad(rearranged(grad.value(), mistake));
  }
}

Planted plant(Tape& tape, uint64_t number) {
  Generator generator(number);
  for (;;) {
    const auto drawn = randint(0, 1 << 20, {2}, Device::cpu, generator).values();
    Planted p{static_cast<Mistake>(number % 5), static_cast<size_t>(drawn[0]) % tape.size()};
    const NodeForward* const forward = tape.forward_of(p.node);
    if (forward == nullptr) continue;
    p.input = static_cast<size_t>(drawn[1]) % forward->op.inputs.size();
    const Tensor& x = forward->op.inputs[p.input];
    if (tape.info(p.node).input_slots[p.input] < 0) continue;
    std::vector<Tensor> dy;
    for (const Tensor& y : forward->op.outputs)
      dy.push_back(randn(y.shape(), y.dtype(), Device::cpu, 0, 1, generator));
    const auto before = tape.pull_back(p.node, dy)[p.input].values();
    const auto armed = std::make_shared<bool>(true);
    tape.change_gradients(p.node, [p, armed, shape = x.shape()](Grads& grads) {
      Grad& grad = grads[p.input];
      const bool whole = grad.value().defined() && grad.value().shape() == shape;
      if (*armed && (whole || p.mistake < Mistake::transposed)) plant(grad, p.mistake);
    });
    const auto after = tape.pull_back(p.node, dy)[p.input].values();
    double size = 0, change = 0;
    for (size_t i = 0; i < before.size(); ++i) {
      size = std::max(size, std::abs(before[i]));
      change = std::max(change, std::abs(after[i] - before[i]));
    }
    p.effect = size > 1e-9 ? change / size : 0;
    if (p.effect > 1e-3) return p;
    // Without effect: a gradient of 0, or a gradient that is equal in every order
    *armed = false;
  }
}

}  // namespace

TEST_CASE("a mistake that is planted in one node of a two-layer model is named first") {
  uint64_t named = 0;
  for (uint64_t n = 0; n < count(); ++n) {
    const Recorded run(n);
    const Planted planted = plant(*run.tape, n);
    const TapeCheck result = check_tape(*run.tape);
    const NodeCheck* const first = result.first_wrong();
    const bool found =
        first != nullptr && first->index == planted.node && result.count(NodeVerdict::wrong) == 1;
    named += found;
    if (!found)
      MESSAGE("model " << n << ", mistake " << static_cast<int>(planted.mistake) << " in op " << planted.node
                       << ", input " << planted.input << "\n"
                       << to_string(result));
    if (found && planted.mistake == Mistake::sign) CHECK(first->cause == Cause::sign);
    if (found && planted.mistake == Mistake::factor) CHECK(first->cause == Cause::factor);
    if (found && planted.mistake == Mistake::zero) CHECK(first->cause == Cause::zero);
  }
  CHECK(100 * named >= 99 * count());
}

TEST_CASE("every node of a right tape is checked and found right, whatever the attention") {
  for (uint64_t n = 0; n < count(); ++n) {
    const Recorded run(100 + n);
    const TapeCheck result = check_tape(*run.tape);
    // Comparisons in the definition of attention
    const size_t ends = result.count(NodeVerdict::cut);
    const bool right = result.count(NodeVerdict::right) + ends == result.nodes.size();
    CHECK_MESSAGE(right, "model " << 100 + n << "\n" << to_string(result));
  }
}
