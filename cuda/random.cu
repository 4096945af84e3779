// Random numbers: element i is word i % 4 of Philox counter offset + i/4, and a thread computes as
// many neighbouring elements as fit into 16 bytes, from one or two counters. There is no state, and
// no thread waits for another. The numbers are the same as on the CPU, bit for bit (normals: up to
// the rounding of log, cos and sin).
#include "core/convert.h"
#include "core/philox.h"
#include "core/tensor_kernels.h"
#include "core/uniform.h"
#include "cuda/strided.h"
#include "ops/kernels.h"

namespace vitrine::cuda {
namespace {

/// Elements of a thread: 16 bytes, but whole counters.
template <class S>
inline constexpr int kNumbers = sizeof(S) == 2 ? 8 : 4;

/// y[i] = f(number i, x[i]…), where `make` turns the four words of a counter into four numbers.
template <class Make, class F, class S, class... X>
__device__ void map_numbers(int64_t n, const Draw& draw, const Make& make, const F& f, S* y, const X*... x) {
  constexpr int N = kNumbers<S>;
  const Draw from = draw.now();
  const bool together = is_aligned<N>(y) && (is_aligned<N>(x) && ...);
  for (int64_t i = N * first_index(); i < n; i += N * grid_stride()) {
    Vector<typename decltype(make({}))::value_type, N> numbers;
#pragma unroll
    for (int k = 0; k < N; k += 4) {
      const auto four = make(philox(from.seed, from.offset + static_cast<uint64_t>((i + k) / 4)));
#pragma unroll
      for (int j = 0; j < 4; ++j) numbers.at[k + j] = four[static_cast<size_t>(j)];
    }
    if (together && i + N <= n) {
      store(y + i, map<N>(f, numbers, load<N>(x + i)...));
    } else {
#pragma unroll
      for (int k = 0; k < N; ++k)
        if (i + k < n) y[i + k] = f(numbers.at[k], x[i + k]...);
    }
  }
}

struct Words {
  __device__ std::array<uint32_t, 4> operator()(const std::array<uint32_t, 4>& words) const { return words; }
};
struct Normals {
  __device__ std::array<float, 4> operator()(const std::array<uint32_t, 4>& words) const {
    return to_normals(words);
  }
};

template <class S>
__global__ void uniform_kernel(S* y, int64_t n, Draw draw, Uniform<S> uniform) {
  map_numbers(
      n, draw, Words{}, [&](uint32_t word) { return uniform(word); }, y);
}

template <class S>
__global__ void normal_kernel(S* y, int64_t n, Draw draw, double mean, double deviation) {
  const auto scaled = [&](float z) { return convert<S>(mean + deviation * static_cast<double>(z)); };
  map_numbers(n, draw, Normals{}, scaled, y);
}

template <class S>
__global__ void dropout_kernel(S* y, const S* x, int64_t n, Draw draw, uint32_t limit,
                               AccumulatorOf<S> scale) {
  const auto kept = [&](uint32_t word, S x) {
    return S(word >> 8 < limit ? AccumulatorOf<S>(0) : static_cast<AccumulatorOf<S>>(x) * scale);
  };
  map_numbers(n, draw, Words{}, kept, y, x);
}

__global__ void whole_kernel(int64_t* y, int64_t n, Draw draw, int64_t low, uint64_t count) {
  const Draw from = draw.now();
  for (int64_t i = first_index(); i < n; i += grid_stride())
    y[i] = low + static_cast<int64_t>(to_whole(from.seed, from.offset + static_cast<uint64_t>(i), count));
}

template <class S>
unsigned blocks_for_numbers(const Tensor& y) {
  return blocks_for((y.numel() + kNumbers<S> - 1) / kNumbers<S>);
}

}  // namespace

void random_uniform(Tensor& y, Draw draw, double low, double high) {
  check(y.is_contiguous(), "random: wanted a contiguous tensor");
  visit_device_floating(y.dtype(), "random_uniform", [&](auto type) {
    using S = typename decltype(type)::type;
    VITRINE_LAUNCH((uniform_kernel<S>), blocks_for_numbers<S>(y), kThreads, 0, y.data<S>(), y.numel(), draw,
                   Uniform<S>(low, high));
  });
}

void random_normal(Tensor& y, Draw draw, double mean, double deviation) {
  check(y.is_contiguous(), "random: wanted a contiguous tensor");
  visit_device_floating(y.dtype(), "random_normal", [&](auto type) {
    using S = typename decltype(type)::type;
    VITRINE_LAUNCH((normal_kernel<S>), blocks_for_numbers<S>(y), kThreads, 0, y.data<S>(), y.numel(), draw,
                   mean, deviation);
  });
}

void random_whole(Tensor& y, Draw draw, int64_t low, int64_t count) {
  check(y.is_contiguous() && y.dtype() == DType::int64, "random_whole: wanted a contiguous int64 tensor");
  VITRINE_LAUNCH(whole_kernel, blocks_for(y.numel()), kThreads, 0, y.data<int64_t>(), y.numel(), draw, low,
                 static_cast<uint64_t>(count));
}

void dropout(Tensor& y, const Tensor& x, double p, double scale, Draw draw) {
  // A uniform number is k·2⁻²⁴ with an integer k, so u < p exactly if k < ⌈p·2²⁴⌉: the comparison
  // needs no floats.
  const auto limit = static_cast<uint32_t>(std::ceil(p * 0x1p24));
  visit_device_floating(x.dtype(), "dropout", [&](auto type) {
    using S = typename decltype(type)::type;
    VITRINE_LAUNCH((dropout_kernel<S>), blocks_for_numbers<S>(y), kThreads, 0, y.data<S>(), x.data<S>(),
                   x.numel(), draw, limit, static_cast<AccumulatorOf<S>>(scale));
  });
}

}  // namespace vitrine::cuda
