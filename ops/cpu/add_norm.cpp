// A residual connection and the norm after it. Each row is added and normalized while it is in
// cache.
#include <cmath>
#include <type_traits>

#include "core/memory/thread_buffer.h"
#include "core/simd/row_functions.h"
#include "ops/cpu/rows.h"
#include "ops/kernels.h"

namespace vitrine::cpu {
namespace {

enum class Use { sum };

/// sum = x + y, rounded once.
template <class S>
void add_row(S* sum, const S* x, const S* y, size_t n) {
  if constexpr (std::is_same_v<S, AccumulatorOf<S>>) {
    for (size_t i = 0; i < n; ++i) sum[i] = x[i] + y[i];
  } else {
    auto* const wide = detail::thread_buffer<AccumulatorOf<S>, Use::sum>(n);
    vecmath::convert(wide, x, n);
    vecmath::axpy(wide, AccumulatorOf<S>(1), y, n);
    vecmath::convert(sum, wide, n);
  }
}

}  // namespace

void add_norm(Tensor& sum, Tensor& y, Tensor& mean, Tensor& rstd, const Tensor& x, const Tensor& residual,
              const Tensor& weight, const Tensor& bias, double eps) {
  for_each_row("add_norm", x, [&](auto type, int64_t row, int64_t at, size_t n) {
    using S = typename decltype(type)::type;
    using T = AccumulatorOf<S>;
    S* const to = sum.data<S>() + at;
    add_row(to, x.data<S>() + at, residual.data<S>() + at, n);
    const auto count = static_cast<T>(n);
    T m = 0, squares = 0;
    if (mean.defined()) {
      mean.data<T>()[row] = m = vecmath::sum(to, n) / count;
      squares = vecmath::sum_squared_deviation(to, m, n);
    } else {
      squares = vecmath::sum_of_squares(to, n);
    }
    const T r = rstd.data<T>()[row] = 1 / std::sqrt(squares / count + static_cast<T>(eps));
    vecmath::normalize<S>(y.data<S>() + at, to, m, r, weight.data<T>(),
                          bias.defined() ? bias.data<T>() : nullptr, n);
  });
}

}  // namespace vitrine::cpu
