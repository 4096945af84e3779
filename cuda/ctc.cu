// CTC: a block has a row of the batch, and its threads have the states. Frames follow one another.
#include "cuda/launch.h"
#include "ops/kernels_ctc.h"

namespace vitrine::cuda {
namespace {

/// The operands of a batch.
template <class T>
struct CtcBatch {
  const T* x;
  const int64_t *targets, *input_lengths, *target_lengths;
  int64_t time, classes, labels, blank;

  CtcBatch(const Tensor& x, const Tensor& targets, const Tensor& input_lengths, const Tensor& target_lengths,
           int64_t blank)
      : x(x.data<T>()),
        targets(targets.data<int64_t>()),
        input_lengths(input_lengths.data<int64_t>()),
        target_lengths(target_lengths.data<int64_t>()),
        time(x.size(1)),
        classes(x.size(2)),
        labels(targets.size(1)),
        blank(blank) {}
  __device__ CtcRow<T> row(int64_t b) const {
    return {b, x, targets, input_lengths, target_lengths, time, classes, labels, blank};
  }
  __device__ int64_t width() const { return 2 * labels + 1; }
};

template <class T>
__global__ void ctc_loss_kernel(T* losses, double* alpha, CtcBatch<T> batch) {
  const int64_t b = blockIdx.x;
  const CtcRow<T> row = batch.row(b);
  double* const alphas = alpha + b * batch.time * batch.width();
  double* now = alphas;
  const double* before = now;
  for (int64_t t = 0; t < row.frames; ++t, before = now, now += batch.width()) {
    for (int64_t s = threadIdx.x; s < row.states(); s += blockDim.x) now[s] = row.alpha(t, s, before);
    __syncthreads();
  }
  if (threadIdx.x == 0) losses[b] = static_cast<T>(row.loss(alphas, batch.width()));
}

/// The probabilities of the states are written first. Then the thread of the first state of a class
/// adds those of the class.
template <class T>
__global__ void ctc_loss_backward_kernel(T* dx, double* scratch, const T* dlosses, const double* alpha,
                                         CtcBatch<T> batch) {
  const int64_t b = blockIdx.x, width = batch.width();
  const CtcRow<T> row = batch.row(b);
  const double* const alphas = alpha + b * batch.time * width;
  const double loss = row.loss(alphas, width);
  if (loss == INFINITY) return;
  double* after = scratch + b * 3 * width;
  double* now = after + width;
  double* const shares = after + 2 * width;
  for (int64_t t = row.frames - 1; t >= 0; --t) {
    for (int64_t s = threadIdx.x; s < row.states(); s += blockDim.x) {
      now[s] = row.beta(t, s, after);
      shares[s] = math::exp(alphas[t * width + s] + now[s] + loss);
    }
    __syncthreads();
    for (int64_t s = threadIdx.x; s < row.states(); s += blockDim.x) {
      if (!row.is_first(s)) continue;
      double total = 0;
      for (int64_t i = s; i < row.states(); ++i)
        if (row.class_of(i) == row.class_of(s)) total += shares[i];
      dx[(b * batch.time + t) * batch.classes + row.class_of(s)] = -dlosses[b] * static_cast<T>(total);
    }
    __syncthreads();
    double* const next = after;
    after = now, now = next;
  }
}

template <class F>
void visit_wide(DType dtype, F&& f) {
  if (dtype == DType::float32)
    f(float());
  else
    f(double());
}

}  // namespace

void ctc_loss(Tensor& losses, Tensor& alpha, const Tensor& x, const Tensor& targets,
              const Tensor& input_lengths, const Tensor& target_lengths, int64_t blank) {
  if (losses.numel() == 0) return;
  visit_wide(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    VITRINE_LAUNCH((ctc_loss_kernel<T>), static_cast<unsigned>(losses.numel()), kThreads, 0, losses.data<T>(),
                   alpha.data<double>(), CtcBatch<T>(x, targets, input_lengths, target_lengths, blank));
  });
}

void ctc_loss_backward(Tensor& dx, Tensor& scratch, const Tensor& dlosses, const Tensor& alpha,
                       const Tensor& x, const Tensor& targets, const Tensor& input_lengths,
                       const Tensor& target_lengths, int64_t blank) {
  if (dlosses.numel() == 0) return;
  visit_wide(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    VITRINE_LAUNCH((ctc_loss_backward_kernel<T>), static_cast<unsigned>(dlosses.numel()), kThreads, 0,
                   dx.data<T>(), scratch.data<double>(), dlosses.data<T>(), alpha.data<double>(),
                   CtcBatch<T>(x, targets, input_lengths, target_lengths, blank));
  });
}

}  // namespace vitrine::cuda
