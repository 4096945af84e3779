#include "nn/losses/margin.h"

#include <cmath>
#include <numbers>

#include "core/creation.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/loss.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "ops/view.h"

namespace vitrine::nn {
namespace {

/// cos(θ + m), where θ + m < π, that is, cos θ > −cos m. The root is of a number of at least 0, so
/// that rounding of a cosine beyond 1 gives no NaN.
Tensor turned(const Tensor& cosine, double m) {
  const Tensor sine = sqrt(maximum(1 - square(cosine), 1e-30));
  const Tensor inside = greater(cosine, full_like(cosine, -std::cos(m)));
  return where(inside, cosine * std::cos(m) - sine * std::sin(m), cosine - m * std::sin(m));
}

}  // namespace

Tensor margin_softmax(const Tensor& x, const Tensor& w, const Tensor& targets, const MarginOptions& o) {
  check(x.rank() == 2 && w.rank() == 2 && x.size(1) == w.size(1),
        "margin_softmax: x is {} and w is {}, wanted [N, C] and [classes, C]", x.shape(), w.shape());
  check(o.kind == Margin::am_softmax || (o.margin >= 0 && o.margin < std::numbers::pi),
        "margin_softmax: the margin of arcface is {}, wanted an angle in [0, π)", o.margin);
  // In float16 a cosine near 1 rounds to 1, where the derivative of the sine is infinite.
  const Tensor rounded = matmul(l2_normalize(x), transpose(l2_normalize(w))),
               cosine = cast(rounded, accumulation_dtype(rounded.dtype()));
  const Tensor target = o.kind == Margin::arcface ? turned(cosine, o.margin) : cosine - o.margin;
  const Tensor chosen = one_hot(targets, cosine.size(1), cosine.dtype());
  return cast(cross_entropy(o.scale * (chosen * target + (1 - chosen) * cosine), targets), rounded.dtype());
}

}  // namespace vitrine::nn
