#include "ops/dropout.h"

#include <cmath>

#include "ops/cpu/rows.h"
#include "ops/elementwise.h"
#include "ops/kernels.h"
#include "ops/operands.h"
#include "ops/view.h"

namespace vitrine {

Tensor define::dropout(const Tensor& x, double p, Draw draw) {
  Tensor u = empty(x.shape(), DType::float32, x.device());
  VITRINE_RUN(random_uniform, u, draw, 0.0, 1.0);
  const Tensor kept = greater_equal(u, full({}, p, DType::float64, x.device()));
  return where(kept, p < 1 ? x * (1 / (1 - p)) : x, 0.0);
}

Tensor dropout(const Tensor& x, double p, Generator& generator) {
  check_floating("dropout", "x", x);
  check(p >= 0 && p <= 1, "dropout: p is {}, wanted a probability of 0 to 1", p);
  if (p == 0) return x;
  const Draw draw = generator.draw(x.numel());
  if (const auto y = through_definition({x}, [&] { return define::dropout(x, p, draw); })) return *y;
  const double scale = p < 1 ? 1 / (1 - p) : 0;
  Tensor y = empty_like(x);
  VITRINE_RUN(dropout, y, packed(x), p, scale, draw);
  return record("dropout", {x}, y, [p, scale, draw](const Tensor& dy) -> Grads {
    Tensor dx = empty_like(dy);
    VITRINE_RUN(dropout, dx, packed(dy), p, scale, draw);
    return {dx};
  });
}

void cpu::dropout(Tensor& y, const Tensor& x, double p, double scale, Draw draw) {
  // A uniform number is k·2⁻²⁴ for an integer k, so u < p if k < ⌈p·2²⁴⌉. The comparison needs no
  // floats.
  const auto limit = static_cast<uint32_t>(std::ceil(p * 0x1p24));
  constexpr int64_t kBlock = 4096;  // a multiple of 4, the numbers per counter
  visit_row_type(x.dtype(), "dropout", [&](auto type) {
    using S = typename decltype(type)::type;
    parallel_for(0, (x.numel() + kBlock - 1) / kBlock, 4, [&](int64_t b, int64_t e) {
      const int64_t begin = b * kBlock, end = std::min(x.numel(), e * kBlock);
      dropout_row(y.data<S>() + begin, x.data<S>() + begin, limit, static_cast<AccumulatorOf<S>>(scale),
                  draw.seed, draw.offset + static_cast<uint64_t>(begin / 4),
                  static_cast<size_t>(end - begin));
    });
  });
}

}  // namespace vitrine
