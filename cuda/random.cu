// Random numbers: thread i takes Philox counter offset + i and makes elements 4i … 4i + 3 of its four words. No state is kept and
// no thread waits for another: the numbers are the CPU's, bit for bit (normals: to rounding of log, cos and sin).
#include "core/convert.h"
#include "core/kernels.h"
#include "core/philox.h"
#include "core/uniform.h"
#include "cuda/strided.h"
#include "ops/kernels.h"

namespace vitrine::cuda {
namespace {

/// Calls f(i, k, words) for the elements i of this thread's counters; element i comes from word k.
template <class F>
__device__ void for_each_number(int64_t n, Draw draw, F&& f) {
  const Draw from = draw.now();
  for (int64_t block = first_index(); 4 * block < n; block += grid_stride()) {
    const auto words = philox(from.seed, from.offset + static_cast<uint64_t>(block));
    for (unsigned k = 0; k < 4 && 4 * block + k < n; ++k) f(4 * block + k, k, words);
  }
}

template <class S>
__global__ void uniform_kernel(S* y, int64_t n, Draw draw, Uniform<S> uniform) {
  for_each_number(n, draw, [&](int64_t i, unsigned k, const auto& words) { y[i] = uniform(words[k]); });
}

template <class S>
__global__ void normal_kernel(S* y, int64_t n, Draw draw, double mean, double deviation) {
  for_each_number(n, draw, [&](int64_t i, unsigned k, const auto& words) {
    y[i] = convert<S>(mean + deviation * static_cast<double>(to_normals(words)[k]));
  });
}

template <class S>
__global__ void dropout_kernel(S* y, const S* x, int64_t n, Draw draw, uint32_t limit, Wide<S> scale) {
  for_each_number(n, draw, [&](int64_t i, unsigned k, const auto& words) {
    y[i] = S(words[k] >> 8 < limit ? Wide<S>(0) : static_cast<Wide<S>>(x[i]) * scale);
  });
}

unsigned blocks_for_numbers(const Tensor& y) { return blocks_for((y.numel() + 3) / 4); }

}  // namespace

void random_uniform(Tensor& y, Draw draw, double low, double high) {
  check(y.is_contiguous(), "random: wanted a contiguous tensor");
  visit_device_floating(y.dtype(), "random_uniform", [&](auto type) {
    using S = typename decltype(type)::type;
    VITRINE_LAUNCH((uniform_kernel<S>), blocks_for_numbers(y), kThreads, 0, y.data<S>(), y.numel(), draw,
                   Uniform<S>(low, high));
  });
}

void random_normal(Tensor& y, Draw draw, double mean, double deviation) {
  check(y.is_contiguous(), "random: wanted a contiguous tensor");
  visit_device_floating(y.dtype(), "random_normal", [&](auto type) {
    using S = typename decltype(type)::type;
    VITRINE_LAUNCH((normal_kernel<S>), blocks_for_numbers(y), kThreads, 0, y.data<S>(), y.numel(), draw, mean,
                   deviation);
  });
}

void dropout(Tensor& y, const Tensor& x, double p, double scale, Draw draw) {
  // A uniform is k·2⁻²⁴ for a whole k, so u < p where k < ⌈p·2²⁴⌉: the comparison needs no floats.
  const auto limit = static_cast<uint32_t>(std::ceil(p * 0x1p24));
  visit_device_floating(x.dtype(), "dropout", [&](auto type) {
    using S = typename decltype(type)::type;
    VITRINE_LAUNCH((dropout_kernel<S>), blocks_for_numbers(y), kThreads, 0, y.data<S>(), x.data<S>(),
                   x.numel(), draw, limit, static_cast<Wide<S>>(scale));
  });
}

}  // namespace vitrine::cuda
