// The checks and kernels of losses. Cross-entropy is fused with softmax, with one block per row of
// logits [rows, V]:
//
//   loss = log Σ e^x − x[target], with smoothing s: (1 − s)·(that) + s·(log Σ e^x − average x)
//   dx = dloss·(softmax(x) − target distribution)
//
// The probabilities are never stored: the forward saves two numbers per row, and the backward
// computes the probabilities again from them. So a step reads the logits twice and writes their
// gradient once.
#include "core/convert.h"
#include "cuda/rows.h"
#include "cuda/runtime/device_error.h"
#include "cuda/sum_exp.h"
#include "ops/kernels.h"

namespace vitrine::cuda {
namespace {

template <class S>
__global__ void check_shares_kernel(const S* x, int64_t n, HostText op, HostText argument,
                                    DeviceError* error) {
  for (int64_t i = first_index(); i < n; i += grid_stride()) {
    const auto share = convert<double>(x[i]);
    if (!(share >= 0 && share <= 1))  // NaN too
      leave(
          error,
          {.kind = DeviceError::Kind::share, .op = op, .argument = argument, .position = i, .number = share});
  }
}

template <class T>
struct Targets {
  const int64_t* of_row;
  int64_t ignore;
  T smoothing;
};

template <class S>
__global__ void __launch_bounds__(kMostHolding)
    cross_entropy_kernel(AccumulatorOf<S>* losses, AccumulatorOf<S>* shift, AccumulatorOf<S>* total,
                         const S* x, int64_t apart, int64_t n, Targets<AccumulatorOf<S>> targets,
                         unsigned shared) {
  using T = AccumulatorOf<S>;
  const int64_t target = targets.of_row[blockIdx.x];
  if (target == targets.ignore) {
    if (threadIdx.x == 0) losses[blockIdx.x] = shift[blockIdx.x] = total[blockIdx.x] = T(0);
    return;
  }
  const S* row = x + row_begin(apart);
  rows_in_registers(shared, n, row);
  const ShiftedTotal<T> all = with_finite_shift(sum_exp(row, n));
  T average = 0;
  if (targets.smoothing > T(0)) {
    for_each_element(
        n, [&](S x) { average += static_cast<T>(x); }, row);
    average = sum_block(average) / static_cast<T>(n);
  }
  if (threadIdx.x != 0) return;
  // x is subtracted from the shift first: both may be large, but a small difference is exact.
  const auto loss_of = [&](T score) {
    return all.total == T(0) ? -minus_infinity<T>() : (all.shift - score) + math::log(all.total);
  };
  T loss = loss_of(static_cast<T>(row[target]));
  if (targets.smoothing > T(0))
    loss = (T(1) - targets.smoothing) * loss + targets.smoothing * loss_of(average);
  losses[blockIdx.x] = loss;
  shift[blockIdx.x] = all.shift;
  total[blockIdx.x] = all.total;
}

template <class S>
__global__ void __launch_bounds__(kMostThreads)
    cross_entropy_backward_kernel(S* dx, int64_t dx_apart, const AccumulatorOf<S>* dlosses, const S* x,
                                  int64_t x_apart, const AccumulatorOf<S>* shift,
                                  const AccumulatorOf<S>* total, int64_t n,
                                  Targets<AccumulatorOf<S>> targets) {
  using T = AccumulatorOf<S>;
  const int64_t target = targets.of_row[blockIdx.x];
  const T sum = total[blockIdx.x], by = shift[blockIdx.x], up = dlosses[blockIdx.x];
  const bool counts = target != targets.ignore && sum != T(0);
  const T share = targets.smoothing / static_cast<T>(n), scale = T(1) / sum;
  const auto value = [&](S x, T wanted) {
    const T p = exp_for<S>(static_cast<T>(x) - by) * scale;
    return S(counts ? up * (p - wanted) : T(0));
  };
  dx += row_begin(dx_apart), x += row_begin(x_apart);
  const auto walk = [&](int64_t i, auto lanes) {
    const auto row = load<lanes>(x + i);
    Vector<S, lanes> slopes;
#pragma unroll
    for (int k = 0; k < lanes; ++k)
      slopes.at[k] = value(row.at[k], i + k == target ? T(1) - targets.smoothing + share : share);
    store(dx + i, slopes);
  };
  for_each_vector(n, walk, dx, x);
}

template <class T>
Targets<T> targets_of(const Tensor& targets, int64_t ignore, double smoothing) {
  return {targets.data<int64_t>(), ignore, static_cast<T>(smoothing)};
}

}  // namespace

void check_shares(const Tensor& x, const char* op, const char* argument) {
  const int64_t n = x.numel();
  if (n == 0) return;
  visit_device(x.dtype(), op, [&](auto type) {
    using S = typename decltype(type)::type;
    VITRINE_LAUNCH((check_shares_kernel<S>), blocks_for(n), kThreads, 0, x.data<S>(), n, HostText(op),
                   HostText(argument), device_error());
  });
}

void cross_entropy(Tensor& losses, Tensor& shift, Tensor& total, const Tensor& logits, const Tensor& targets,
                   int64_t ignore, double label_smoothing) {
  visit_rows("cross_entropy", logits, [&](auto type, unsigned rows, int64_t n) {
    using S = typename decltype(type)::type;
    using T = AccumulatorOf<S>;
    // Only smoothing reads a row again.
    const Holding block =
        label_smoothing > 0 ? holding_for<cross_entropy_kernel<S>, S>(n, 1) : Holding{threads_for(n), 0};
    VITRINE_LAUNCH((cross_entropy_kernel<S>), rows, block.threads, block.shared, losses.data<T>(),
                   shift.data<T>(), total.data<T>(), logits.data<S>(), logits.strides()[0], n,
                   targets_of<T>(targets, ignore, label_smoothing), block.shared);
  });
}

void cross_entropy_backward(Tensor& dx, const Tensor& dlosses, const Tensor& logits, const Tensor& targets,
                            const Tensor& shift, const Tensor& total, int64_t ignore,
                            double label_smoothing) {
  visit_rows("cross_entropy_backward", logits, [&](auto type, unsigned rows, int64_t n) {
    using S = typename decltype(type)::type;
    using T = AccumulatorOf<S>;
    VITRINE_LAUNCH((cross_entropy_backward_kernel<S>), rows, threads_for(n), 0, dx.data<S>(), dx.strides()[0],
                   dlosses.data<T>(), logits.data<S>(), logits.strides()[0], shift.data<T>(), total.data<T>(),
                   n, targets_of<T>(targets, ignore, label_smoothing));
  });
}

}  // namespace vitrine::cuda
