// Running sums. Declared in ops/reduce.h.
#include "core/convert.h"
#include "core/parallel.h"
#include "ops/kernels.h"
#include "ops/operands.h"
#include "ops/reduce.h"

namespace vitrine {

Tensor cumsum(const Tensor& x, int64_t axis, bool exclusive, bool reverse) {
  const int at = check_axis("cumsum", x.shape(), axis);
  const Tensor from = packed(x);
  const Shape& shape = x.shape();
  Shape view = {1, shape[at], 1};
  for (int i = 0; i < at; ++i) view[0] *= shape[i];
  for (int i = at + 1; i < shape.rank(); ++i) view[2] *= shape[i];
  Tensor y = empty(view, is_floating(x.dtype()) ? x.dtype() : DType::int64, x.device());
  VITRINE_RUN(cumsum, y, from.alias(view, contiguous_strides(view)), exclusive, reverse);
  // Element j is part of the sums from j on, so the adjoint sums in the other direction.
  return record("cumsum", {x}, y.alias(shape, contiguous_strides(shape)),
                [axis, exclusive, reverse](const Tensor& dy) -> Grads {
                  return {cumsum(dy, axis, exclusive, !reverse)};
                });
}

void cpu::cumsum(Tensor& y, const Tensor& x, bool exclusive, bool reverse) {
  const int64_t n = x.size(1), inner = x.size(2);
  constexpr int64_t kColumns = 256;
  const int64_t blocks = (inner + kColumns - 1) / kColumns;
  visit_all(x.dtype(), [&](auto type) {
    using S = typename decltype(type)::type;
    using D = std::conditional_t<is_floating(dtype_v<S>), S, int64_t>;
    // Sums of floats are computed in double: a float32 sum loses a digit in ten thousand additions.
    // Integers wrap around.
    using Whole = std::conditional_t<std::is_same_v<D, int64_t>, uint64_t, double>;
    using Total = std::conditional_t<std::is_same_v<S, Dual>, Dual, Whole>;
    const S* const from = x.data<S>();
    D* const to = y.data<D>();
    parallel_for(0, x.size(0) * blocks, grain_for(n * std::min(inner, kColumns)), [&](int64_t b, int64_t e) {
      for (int64_t i = b; i < e; ++i) {
        const int64_t column = i % blocks * kColumns, columns = std::min(kColumns, inner - column);
        std::array<Total, kColumns> totals{};
        for (int64_t step = 0; step < n; ++step) {
          const int64_t at = (i / blocks * n + (reverse ? n - 1 - step : step)) * inner + column;
          for (int64_t c = 0; c < columns; ++c) {
            Total& total = totals[static_cast<size_t>(c)];
            const Total before = total;
            total += convert<Total>(from[at + c]);
            to[at + c] = convert<D>(exclusive ? before : total);
          }
        }
      }
    });
  });
}

}  // namespace vitrine
