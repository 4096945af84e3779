// Filling, copying with conversion, and adding, with any strides.
#include "core/convert.h"
#include "core/creation.h"
#include "core/halves.h"
#include "core/tensor_kernels.h"
#include "cuda/strided.h"

namespace vitrine::cuda {
namespace {

template <class S>
__global__ void fill_kernel(S* y, Strided<1> layout, S value) {
  map_all(
      layout, [&] { return value; }, y);
}

template <class S>
__global__ void arange_kernel(S* y, int64_t n, double start, double step) {
  for (int64_t i = first_index(); i < n; i += grid_stride())
    y[i] = convert<S>(start + static_cast<double>(i) * step);
}

template <class To, class From>
__global__ void copy_kernel(To* y, const From* x, Strided<2> layout) {
  map_all(
      layout, [](From x) { return convert<To>(x); }, y, x);
}

/// A number outside the range of uint8 becomes the nearest limit.
__global__ void limited_bytes_kernel(uint8_t* y, const int32_t* x, Strided<2> layout) {
  map_all(
      layout,
      [](int32_t x) {
        const int32_t bounded = x > 255 ? 255 : x;
        return static_cast<uint8_t>(bounded < 0 ? 0 : bounded);
      },
      y, x);
}

template <class To, class From>
__global__ void accumulate_kernel(To* y, const From* x, Strided<3> layout) {
  using T = AccumulatorOf<To>;
  map_all(
      layout, [](To y, From x) { return To(static_cast<T>(y) + convert<T>(x)); }, y, y, x);
}

__global__ void split_kernel(bfloat16* high, uint16_t* low, const float* x, int64_t n) {
  for (int64_t i = first_index(); i < n; i += grid_stride()) {
    const Halves halves(x[i]);
    high[i] = halves.high, low[i] = halves.low;
  }
}

__global__ void join_kernel(float* x, const bfloat16* high, const uint16_t* low, int64_t n) {
  for (int64_t i = first_index(); i < n; i += grid_stride()) x[i] = Halves(high[i], low[i]).joined();
}

}  // namespace

void fill(Tensor& y, double value) {
  if (y.numel() == 0) return;
  visit_device(y.dtype(), "fill", [&](auto type) {
    using S = typename decltype(type)::type;
    const auto layout = Strided<1>::of(y);
    VITRINE_LAUNCH((fill_kernel<S>), layout.blocks(), kThreads, 0, y.data<S>(), layout, convert<S>(value));
  });
}

void arange(Tensor& y, double start, double step) {
  const int64_t n = y.numel();
  if (n == 0) return;
  visit_device(y.dtype(), "arange", [&](auto type) {
    using S = typename decltype(type)::type;
    VITRINE_LAUNCH((arange_kernel<S>), blocks_for(n), kThreads, 0, y.data<S>(), n, start, step);
  });
}

namespace {

template <class To, class From>
void launch_copy(Tensor& y, const Tensor& x) {
  const auto layout = Strided<2>::of(y, x);
  VITRINE_LAUNCH((copy_kernel<To, From>), layout.blocks(), kThreads, 0, y.data<To>(), x.data<From>(), layout);
}

/// Converts between uint8 and the other dtypes through int32, as on the CPU.
void copy_bytes(Tensor& y, const Tensor& x) {
  if (x.dtype() == y.dtype()) return launch_copy<uint8_t, uint8_t>(y, x);
  if (y.dtype() == DType::int32) return launch_copy<int32_t, uint8_t>(y, x);
  Tensor whole = x;
  if (x.dtype() != DType::int32) copy(whole = empty(x.shape(), DType::int32, x.device()), x);
  if (y.dtype() != DType::uint8) return copy(y, whole);
  if (!is_floating(x.dtype())) return launch_copy<uint8_t, int32_t>(y, whole);
  const auto layout = Strided<2>::of(y, whole);
  VITRINE_LAUNCH(limited_bytes_kernel, layout.blocks(), kThreads, 0, y.data<uint8_t>(), whole.data<int32_t>(),
                 layout);
}

}  // namespace

void copy(Tensor& y, const Tensor& x) {
  check(y.shape() == x.shape(), "copy: the shapes {} and {} differ", y.shape(), x.shape());
  if (y.numel() == 0) return;
  if (x.dtype() == DType::uint8 || y.dtype() == DType::uint8) return copy_bytes(y, x);
  visit_device_but_uint8(y.dtype(), "copy", [&](auto to) {
    visit_device_but_uint8(x.dtype(), "copy", [&](auto from) {
      launch_copy<typename decltype(to)::type, typename decltype(from)::type>(y, x);
    });
  });
}

void split_halves(Tensor& high, Tensor& low, const Tensor& x) {
  if (x.numel() == 0) return;
  VITRINE_LAUNCH(split_kernel, blocks_for(x.numel()), kThreads, 0, high.data<bfloat16>(),
                 reinterpret_cast<uint16_t*>(low.data<uint8_t>()), x.data<float>(), x.numel());
}

void join_halves(Tensor& x, const Tensor& high, const Tensor& low) {
  if (x.numel() == 0) return;
  VITRINE_LAUNCH(join_kernel, blocks_for(x.numel()), kThreads, 0, x.data<float>(), high.data<bfloat16>(),
                 reinterpret_cast<const uint16_t*>(low.data<uint8_t>()), x.numel());
}

void accumulate(Tensor& y, const Tensor& x) {
  check(y.shape() == x.shape(), "accumulate: the shapes {} and {} differ", y.shape(), x.shape());
  if (y.numel() == 0) return;
  visit_device_floating(y.dtype(), "accumulate", [&](auto to) {
    visit_device_floating(x.dtype(), "accumulate", [&](auto from) {
      using To = typename decltype(to)::type;
      using From = typename decltype(from)::type;
      const auto layout = Strided<3>::of(y, y, x);
      VITRINE_LAUNCH((accumulate_kernel<To, From>), layout.blocks(), kThreads, 0, y.data<To>(),
                     x.data<From>(), layout);
    });
  });
}

}  // namespace vitrine::cuda
