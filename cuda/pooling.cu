// Pooling by its definition: a thread owns a window and, in the backward, an element.
#include "cuda/launch.h"
#include "cuda/strided.h"
#include "cuda/sum_exp.h"
#include "ops/kernels.h"

namespace vitrine::cuda {
namespace {

template <class S, class T>
__global__ void max_pool_kernel(S* y, int64_t* chosen, const S* x, Windows w, int64_t n) {
  for (int64_t i = first_index(); i < n; i += grid_stride()) {
    const int64_t image = i / w.count(), window = i % w.count();
    const int64_t row = window / w.columns.count, column = window % w.columns.count;
    const S* const from = x + image * w.elements();
    T best = minus_infinity<T>();
    int64_t at = -1;
    for (int64_t a = 0; a < w.rows.kernel; ++a)
      for (int64_t b = 0; b < w.columns.kernel; ++b) {
        const int64_t h = w.rows.element(row, a), v = w.columns.element(column, b);
        if (!w.rows.holds(h) || !w.columns.holds(v)) continue;
        const T value = static_cast<T>(from[h * w.columns.size + v]);
        if (at >= 0 && !(value > best) && (value == value || best != best)) continue;
        best = value, at = h * w.columns.size + v;
      }
    y[i] = S(best), chosen[i] = at;
  }
}

template <class S, class T>
__global__ void max_pool_backward_kernel(S* dx, const S* dy, const int64_t* chosen, Windows w, int64_t n) {
  for (int64_t i = first_index(); i < n; i += grid_stride()) {
    const int64_t image = i / w.elements(), element = i % w.elements();
    const int64_t row = element / w.columns.size, column = element % w.columns.size;
    T sum = T(0);
    for (int64_t a = w.rows.kernel - 1; a >= 0; --a)
      for (int64_t b = w.columns.kernel - 1; b >= 0; --b) {
        const int64_t h = w.rows.window(row, a), v = w.columns.window(column, b);
        if (h < 0 || v < 0) continue;
        const int64_t window = image * w.count() + h * w.columns.count + v;
        if (chosen[window] == element) sum += static_cast<T>(dy[window]);
      }
    dx[i] = S(sum);
  }
}

}  // namespace

void max_pool(Tensor& y, Tensor& chosen, const Tensor& x, const Windows& w) {
  if (y.numel() == 0) return;
  visit_device_floating(x.dtype(), "max_pool", [&](auto type) {
    using S = typename decltype(type)::type;
    VITRINE_LAUNCH((max_pool_kernel<S, AccumulatorOf<S>>), blocks_for(y.numel()), kThreads, 0, y.data<S>(),
                   chosen.data<int64_t>(), x.data<S>(), w, y.numel());
  });
}

void max_pool_backward(Tensor& dx, const Tensor& dy, const Tensor& chosen, const Windows& w) {
  if (dx.numel() == 0) return;
  visit_device_floating(dy.dtype(), "max_pool_backward", [&](auto type) {
    using S = typename decltype(type)::type;
    VITRINE_LAUNCH((max_pool_backward_kernel<S, AccumulatorOf<S>>), blocks_for(dx.numel()), kThreads, 0,
                   dx.data<S>(), dy.data<S>(), chosen.data<int64_t>(), w, dx.numel());
  });
}

}  // namespace vitrine::cuda
