#include "ops/power_norm.h"

#include <algorithm>

#include "core/record.h"
#include "ops/elementwise.h"
#include "ops/operands.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace vitrine {
namespace {

void check_channels(const char* op, const char* argument, const Tensor& c, const Tensor& x) {
  check(c.shape() == Shape{x.size(-1)}, "{}: {} has the shape {}, wanted [{}], the last axis of x {}", op,
        argument, c.shape(), x.size(-1), x.shape());
}

void check_power_norm(const char* op, const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  check_floating(op, "x", x);
  check(x.rank() > 0 && x.size(-1) > 0, "{}: x has the shape {}, wanted channels along its last axis", op,
        x.shape());
  check_channels(op, "weight", weight, x);
  check_channels(op, "bias", bias, x);
  check(eps >= 0, "{}: eps is {}, wanted at least 0", op, eps);
}

/// All axes except that of the channels.
Axes others(const Tensor& x) {
  Axes axes;
  for (int i = 0; i + 1 < x.rank(); ++i) axes.push_back(i);
  return axes;
}

/// The sum over all positions: [C]. A vector is one position.
Tensor sum_of_channels(const Tensor& x) { return x.rank() == 1 ? x : sum(x, others(x)); }

/// The mean over all positions; 0 if there are none.
Tensor mean_of_channels(const Tensor& x) {
  return sum_of_channels(x) / std::max(1.0, static_cast<double>(x.numel() / x.size(-1)));
}

/// to ← keep·to + share·x, in place, where `keep` is a factor per channel.
void update(Tensor to, const Tensor& keep, double share, const Tensor& x) {
  const Tensor next = to * keep + share * x;
  scale_in_place(to, 0);
  add_in_place(to, next);
}

}  // namespace

Tensor power_norm_v(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  check_power_norm("power_norm_v", x, weight, bias, eps);
  const Tensor z = cast(x, accumulation_dtype(x.dtype()));
  return cast(z * (rsqrt(mean_of_channels(square(z)) + eps) * weight) + bias, x.dtype());
}

Tensor define::power_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& psi2,
                          double eps) {
  const Tensor z = cast(x, accumulation_dtype(x.dtype()));
  return cast(z * rsqrt(psi2 + eps) * weight + bias, x.dtype());
}

Tensor power_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& psi2,
                  const Tensor& nu, double alpha, double eps) {
  check_power_norm("power_norm", x, weight, bias, eps);
  check_channels("power_norm", "psi2", psi2, x);
  check_channels("power_norm", "nu", nu, x);
  check(alpha >= 0 && alpha <= 1, "power_norm: alpha is {}, wanted [0, 1]", alpha);
  const auto value = [&] { return define::power_norm(x, weight, bias, psi2, eps); };
  if (const auto y = through_definition({x, weight, bias}, value)) return *y;
  Tensor y, rstd;
  {
    const Tape::Pause pause;
    y = value();
    rstd = rsqrt(psi2 + eps);  // psi2 changes in the backward
  }
  return record("power_norm", {x, weight, bias}, y,
                [x = Saved(x), weight = Saved(weight), rstd, psi2, nu, alpha](const Backward& b) -> Grads {
                  const Tape::Pause pause;
                  const DType wide = accumulation_dtype(x->dtype());
                  const Tensor from = cast(x, wide), dy = cast(b.dy(), wide), z = from * rstd,
                               g = dy * weight.get();
                  const Tensor dx = cast((g - nu * z) * rstd, x->dtype());
                  const double share = x->numel() == 0 ? 0 : 1 - alpha;
                  update(nu, 1 - share * mean_of_channels(square(z)), share, mean_of_channels(g * z));
                  update(psi2, full_like(psi2, 1 - share), share, mean_of_channels(square(from)));
                  return {dx, b.needs(1) ? Grad(sum_of_channels(dy * z)) : Grad(),
                          b.needs(2) ? Grad(sum_of_channels(dy)) : Grad()};
                });
}

}  // namespace vitrine
