// The checks and kernels of losses. Cross-entropy is fused with softmax. A row of the logits [rows,
// V] is in registers if it is of moderate length (cuda/held_rows.h), and else has a block:
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

/// What the forward reads and writes: the loss of each row, and two numbers for its backward.
template <class S>
struct CrossEntropyForward {
  using T = AccumulatorOf<S>;

  T *losses, *shift, *total;
  const S* x;
  int64_t apart, rows, n;
  Targets<T> targets;

  /// Whether the row has no target. Then its loss is 0.
  __device__ bool ignores(int64_t row) const {
    if (targets.of_row[row] != targets.ignore) return false;
    if (threadIdx.x == 0) losses[row] = shift[row] = total[row] = T(0);
    return true;
  }
  /// `sum` is the sum of the row's elements over all threads; only smoothing needs it.
  __device__ void write(int64_t row, const ShiftedTotal<T>& all, T sum) const {
    if (threadIdx.x != 0) return;
    // x is subtracted from the shift first: both may be large, but a small difference is exact.
    const auto loss_of = [&](T score) {
      return all.total == T(0) ? -minus_infinity<T>() : (all.shift - score) + math::log(all.total);
    };
    T loss = loss_of(static_cast<T>(x[row * apart + targets.of_row[row]]));
    if (targets.smoothing > T(0))
      loss = (T(1) - targets.smoothing) * loss + targets.smoothing * loss_of(sum / static_cast<T>(n));
    losses[row] = loss, shift[row] = all.shift, total[row] = all.total;
  }
};

template <class S>
__global__ void __launch_bounds__(kMostHolders) held_cross_entropy_kernel(CrossEntropyForward<S> loss) {
  using T = AccumulatorOf<S>;
  const int64_t row = held_row();
  // a whole warp or block, which shares no barrier with others
  if (row >= loss.rows || loss.ignores(row)) return;
  const HeldElements<S> held(loss.x + row * loss.apart, loss.n, minus_infinity<T>());
  const ShiftedTotal<T> all = with_finite_shift(sum_exp(held));
  T sum = 0;
  if (loss.targets.smoothing > T(0)) {
    for_each_held<S, kHeld>(loss.n, [&](int v, int) {
      for (const T x : held.at[v].at) sum += x;
    });
    sum = sum_block(sum);
  }
  loss.write(row, all, sum);
}

template <class S>
__global__ void __launch_bounds__(kMostHolding)
    cross_entropy_kernel(CrossEntropyForward<S> loss, unsigned shared) {
  using T = AccumulatorOf<S>;
  if (loss.ignores(blockIdx.x)) return;
  const S* row = loss.x + row_begin(loss.apart);
  rows_in_registers(shared, loss.n, row);
  const ShiftedTotal<T> all = with_finite_shift(sum_exp(row, loss.n));
  T sum = 0;
  if (loss.targets.smoothing > T(0)) {
    for_each_element(
        loss.n, [&](S x) { sum += static_cast<T>(x); }, row);
    sum = sum_block(sum);
  }
  loss.write(blockIdx.x, all, sum);
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
    const CrossEntropyForward<S> loss{losses.data<T>(),
                                      shift.data<T>(),
                                      total.data<T>(),
                                      logits.data<S>(),
                                      logits.strides()[0],
                                      int64_t{rows},
                                      n,
                                      targets_of<T>(targets, ignore, label_smoothing)};
    const bool aligned = loss.apart % kLanes<S> == 0;
    if (const unsigned holders = holders_of<S>(kHeld, n, logits); aligned && holders > 0) {
      const dim3 block = held_block(holders);
      VITRINE_LAUNCH((held_cross_entropy_kernel<S>), (rows + block.y - 1) / block.y, block, 0, loss);
      return;
    }
    // Only smoothing reads a row again.
    const Holding block =
        label_smoothing > 0 ? holding_for<cross_entropy_kernel<S>, S>(n, 1) : Holding{threads_for(n), 0};
    VITRINE_LAUNCH((cross_entropy_kernel<S>), rows, block.threads, block.shared, loss, block.shared);
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
