// Rows that use the tape: cuts, checkpoints and writes that it allows.
#include "core/creation.h"
#include "core/recompute.h"
#include "core/tape.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/view.h"
#include "tests/programs/ops.h"

namespace vitrine::programs {
namespace {

using V = const Values&;
using P = const Params&;

/// A running average of x and y: the buffer is a constant, which is written while the tape is
/// paused.
Tensor average(V x, P) {
  const Tensor y = detach(x[1]);
  Tensor buffer = clone(detach(x[0]));
  const Tape::Pause pause;
  scale_in_place(buffer, 0.75);
  add_in_place(buffer, y, 0.25);
  return buffer;
}

/// No backward keeps the result of x + 0, so that it may be written; a constant that is added
/// leaves derivatives as they are.
Tensor shifted_in_place(V x, P) {
  Tensor y = x[0] + 0;
  const Tape::Pause pause;
  Tensor part = y.rank() > 0 ? slice(y, 0, std::nullopt, std::nullopt, -2) : y;
  add_in_place(part, full_like(part, 0.5));
  return y;
}

/// Numbers of either sign, none of them small, that differ from element to element.
Tensor weights_for(const Tensor& x, size_t operand) {
  std::vector<double> values(static_cast<size_t>(x.numel()));
  for (size_t i = 0; i < values.size(); ++i) {
    const double v = std::sin(1.7 * static_cast<double>(i + 1) + static_cast<double>(operand));
    values[i] = v + (v < 0 ? -0.3 : 0.3);
  }
  return tensor(values, x.shape(), x.dtype());
}

Tensor weighted_sum(V x, P) {
  Tensor total;
  for (size_t i = 0; i < x.size(); ++i) {
    const Tensor part = sum(x[i] * weights_for(x[i], i));
    total = total.defined() ? total + part : part;
  }
  return total;
}

std::optional<Fit> never(Choice&, const Shape&) { return std::nullopt; }

std::optional<Fit> two_matrices(Choice& choice, const Shape&) {
  const int64_t n = choice.between(1, 4), k = choice.between(1, 4);
  return Fit{{{n, k}, {k, choice.between(1, 4)}}};
}

}  // namespace

std::vector<Op> tape_ops() {
  std::vector<Op> ops = {
      {"detach", "detach($0)", same, [](V x, P) { return detach(x[0]); }},
      {"paused_average", "average($0, $1), written under Pause", two_alike, average},
      {"paused_shift", "$0 + 0, then += 0.5 under Pause in every second row from the end", same,
       shifted_in_place},
      {"recompute", "recompute([&] { return tanh($0 * $1) + $0; })", broadcasting,
       [](V x, P) { return recompute([x = x[0], y = x[1]] { return tanh(x * y) + x; }); }},
      {"recompute", "recompute([&] { return softmax(matmul($0, $1)); })", two_matrices,
       [](V x, P) { return recompute([x = x[0], y = x[1]] { return softmax(matmul(x, y)); }); }},
      {"loss", "weighted_sum({$0*})", never, weighted_sum},
  };
  ops[0].constant = ops[1].constant = true;
  return ops;
}

}  // namespace vitrine::programs
