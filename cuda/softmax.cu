// Softmax and its logarithms over the last axis: rows of moderate length in registers
// (cuda/held_rows.h); longer and unaligned rows with one block per row.
//
//   softmax(x)ᵢ = e^xᵢ / Σ e^xⱼ    log_softmax(x)ᵢ = xᵢ − log Σ e^xⱼ    log_sum_exp(x) = log Σ e^xⱼ
//
// The sum takes one pass (cuda/sum_exp.h). The textbook takes two passes, one for the largest
// element and one for the sum. Memory bounds these kernels, so one pass less matters. The second
// read of a row comes from registers, from a cache or from shared memory (cuda/rows.h).
#include "cuda/sum_exp.h"
#include "ops/kernels.h"

namespace vitrine::cuda {
namespace {

template <class S>
__global__ void __launch_bounds__(kMostHolders)
    held_softmax_kernel(S* y, const S* x, int64_t rows, int64_t n) {
  using T = AccumulatorOf<S>;
  if (held_row() >= rows) return;  // a whole warp, which shares no barrier with other warps
  HeldElements<S> held(x + held_row() * n, n, minus_infinity<T>());
  const SumExp<T> all = sum_exp(held);
  const T scale = all.largest == minus_infinity<T>() ? T(0) : T(1) / all.total;
  held.update([&](T x) { return scale == T(0) ? T(0) : exp_for<S>(x - all.largest) * scale; });
  held.write(y + held_row() * n, n);
}

template <class S>
__global__ void __launch_bounds__(kMostHolders)
    held_log_softmax_kernel(S* y, const S* x, int64_t rows, int64_t n) {
  using T = AccumulatorOf<S>;
  if (held_row() >= rows) return;
  HeldElements<S> held(x + held_row() * n, n, minus_infinity<T>());
  const ShiftedTotal<T> all = with_finite_shift(sum_exp(held));
  const T log_total = all.total == T(0) ? T(0) : math::log(all.total);
  held.update([&](T x) { return (x - all.shift) - log_total; });
  held.write(y + held_row() * n, n);
}

template <class S>
__global__ void __launch_bounds__(kMostHolding) softmax_kernel(S* y, const S* x, int64_t n, unsigned shared) {
  using T = AccumulatorOf<S>;
  y += row_begin(n), x += row_begin(n);
  rows_in_registers(shared, n, x);
  const SumExp<T> all = sum_exp(x, n);
  // A row that is −∞ everywhere has no valid total; its result is 0.
  const T scale = all.largest == minus_infinity<T>() ? T(0) : T(1) / all.total;
  const auto value = [&](S x) {
    return S(scale == T(0) ? T(0) : exp_for<S>(static_cast<T>(x) - all.largest) * scale);
  };
  map_elements(n, value, y, x);
}

template <class S>
__global__ void __launch_bounds__(kMostHolding)
    softmax_backward_kernel(S* dx, const S* dy, const S* y, int64_t n, unsigned shared) {
  using T = AccumulatorOf<S>;
  dx += row_begin(n), dy += row_begin(n), y += row_begin(n);
  rows_in_registers(shared, n, dy, y);
  T mine = 0;
  const auto add = [&](S dy, S y) { mine += static_cast<T>(dy) * static_cast<T>(y); };
  for_each_element(n, add, dy, y);
  const T dot = sum_block(mine);
  const auto value = [&](S dy, S y) { return S(static_cast<T>(y) * (static_cast<T>(dy) - dot)); };
  map_elements(n, value, dx, dy, y);
}

template <class S>
__global__ void __launch_bounds__(kMostHolding)
    log_softmax_kernel(S* y, const S* x, int64_t n, unsigned shared) {
  using T = AccumulatorOf<S>;
  y += row_begin(n), x += row_begin(n);
  rows_in_registers(shared, n, x);
  const ShiftedTotal<T> all = with_finite_shift(sum_exp(x, n));
  // Subtracted one after the other: the shift has the size of x, and a small difference of the two
  // is exact.
  const T log_total = all.total == T(0) ? T(0) : math::log(all.total);
  const auto value = [&](S x) { return S((static_cast<T>(x) - all.shift) - log_total); };
  map_elements(n, value, y, x);
}

template <class S>
__global__ void __launch_bounds__(kMostHolding)
    log_softmax_backward_kernel(S* dx, const S* dy, const S* y, int64_t n, unsigned shared) {
  using T = AccumulatorOf<S>;
  dx += row_begin(n), dy += row_begin(n), y += row_begin(n);
  rows_in_registers(shared, n, dy, y);
  T mine = 0;
  bool some = false;  // an element above −∞
  const auto look = [&](S dy, S y) {
    mine += static_cast<T>(dy);
    some |= static_cast<T>(y) != minus_infinity<T>();
  };
  for_each_element(n, look, dy, y);
  const T total = sum_block(mine);
  const int any = merge_block(int{some}, [](int a, int b) { return a | b; });
  const auto value = [&](S dy, S y) {
    return S(any ? static_cast<T>(dy) - math::exp(static_cast<T>(y)) * total : T(0));
  };
  map_elements(n, value, dx, dy, y);
}

template <class S>
__global__ void __launch_bounds__(kMostThreads)
    log_sum_exp_kernel(S* y, AccumulatorOf<S>* shift, AccumulatorOf<S>* total, const S* x, int64_t n) {
  const auto all = with_finite_shift(sum_exp(x + row_begin(n), n));
  if (threadIdx.x != 0) return;
  shift[blockIdx.x] = all.shift;
  total[blockIdx.x] = all.total;
  y[blockIdx.x] = S(all.shift + math::log(all.total));
}

template <class S>
__global__ void __launch_bounds__(kMostThreads)
    log_sum_exp_backward_kernel(S* dx, const S* dy, const S* x, const AccumulatorOf<S>* shift,
                                const AccumulatorOf<S>* total, int64_t n) {
  using T = AccumulatorOf<S>;
  const int64_t row = row_begin(n);
  const T sum = total[blockIdx.x], scale = sum == T(0) ? T(0) : static_cast<T>(dy[blockIdx.x]) / sum;
  const T by = shift[blockIdx.x];
  map_elements(
      n, [&](S x) { return S(math::exp(static_cast<T>(x) - by) * scale); }, dx + row, x + row);
}

}  // namespace

void softmax(Tensor& y, const Tensor& x) {
  visit_rows("softmax", x, [&](auto type, unsigned rows, int64_t n) {
    using S = typename decltype(type)::type;
    if (const unsigned holders = holders_of<S>(kHeld, n, x, y); holders > 0) {
      const dim3 block = held_block(holders);
      VITRINE_LAUNCH((held_softmax_kernel<S>), (rows + block.y - 1) / block.y, block, 0, y.data<S>(),
                     x.data<S>(), int64_t{rows}, n);
      return;
    }
    const Holding block = holding_for<softmax_kernel<S>, S>(n, 1);
    VITRINE_LAUNCH((softmax_kernel<S>), rows, block.threads, block.shared, y.data<S>(), x.data<S>(), n,
                   block.shared);
  });
}

void softmax_backward(Tensor& dx, const Tensor& dy, const Tensor& y) {
  visit_rows("softmax_backward", y, [&](auto type, unsigned rows, int64_t n) {
    using S = typename decltype(type)::type;
    const Holding block = holding_for<softmax_backward_kernel<S>, S>(n, 2);
    VITRINE_LAUNCH((softmax_backward_kernel<S>), rows, block.threads, block.shared, dx.data<S>(),
                   dy.data<S>(), y.data<S>(), n, block.shared);
  });
}

void log_softmax(Tensor& y, const Tensor& x) {
  visit_rows("log_softmax", x, [&](auto type, unsigned rows, int64_t n) {
    using S = typename decltype(type)::type;
    if (const unsigned holders = holders_of<S>(kHeld, n, x, y); holders > 0) {
      const dim3 block = held_block(holders);
      VITRINE_LAUNCH((held_log_softmax_kernel<S>), (rows + block.y - 1) / block.y, block, 0, y.data<S>(),
                     x.data<S>(), int64_t{rows}, n);
      return;
    }
    const Holding block = holding_for<log_softmax_kernel<S>, S>(n, 1);
    VITRINE_LAUNCH((log_softmax_kernel<S>), rows, block.threads, block.shared, y.data<S>(), x.data<S>(), n,
                   block.shared);
  });
}

void log_softmax_backward(Tensor& dx, const Tensor& dy, const Tensor& y) {
  visit_rows("log_softmax_backward", y, [&](auto type, unsigned rows, int64_t n) {
    using S = typename decltype(type)::type;
    const Holding block = holding_for<log_softmax_backward_kernel<S>, S>(n, 2);
    VITRINE_LAUNCH((log_softmax_backward_kernel<S>), rows, block.threads, block.shared, dx.data<S>(),
                   dy.data<S>(), y.data<S>(), n, block.shared);
  });
}

void log_sum_exp(Tensor& y, Tensor& shift, Tensor& total, const Tensor& x) {
  visit_rows("log_sum_exp", x, [&](auto type, unsigned rows, int64_t n) {
    using S = typename decltype(type)::type;
    VITRINE_LAUNCH((log_sum_exp_kernel<S>), rows, threads_for(n), 0, y.data<S>(),
                   shift.data<AccumulatorOf<S>>(), total.data<AccumulatorOf<S>>(), x.data<S>(), n);
  });
}

void log_sum_exp_backward(Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& shift,
                          const Tensor& total) {
  visit_rows("log_sum_exp_backward", x, [&](auto type, unsigned rows, int64_t n) {
    using S = typename decltype(type)::type;
    VITRINE_LAUNCH((log_sum_exp_backward_kernel<S>), rows, threads_for(n), 0, dx.data<S>(), dy.data<S>(),
                   x.data<S>(), shift.data<AccumulatorOf<S>>(), total.data<AccumulatorOf<S>>(), n);
  });
}

}  // namespace vitrine::cuda
