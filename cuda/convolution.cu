// Convolutions by their definition: a thread adds up all terms of one element. The weights'
// gradient, whose sums are long, has a block for each element.
#include "cuda/block.h"
#include "cuda/launch.h"
#include "cuda/strided.h"
#include "ops/kernels.h"

namespace vitrine::cuda {
namespace {

/// The sizes of a convolution. A group has `in` channels and `out` outputs.
struct Sizes {
  Windows w;
  int64_t images, channels, outputs, in, out;

  Sizes(const Tensor& x, const Tensor& y, const Tensor& weight, const Windows& windows)
      : w(windows), images(x.size(0)), channels(x.size(1)), outputs(y.size(1)), in(weight.size(1)) {
    out = in == 0 ? outputs : outputs / (channels / in);
  }
};

/// Element i of a tensor [N, channels, height, width].
struct Place {
  int64_t image, channel, row, column;
  __device__ Place(int64_t i, int64_t channels, int64_t height, int64_t width) {
    column = i % width, i /= width;
    row = i % height, i /= height;
    channel = i % channels, image = i / channels;
  }
};

template <class S, class T>
__global__ void convolution_kernel(S* y, const S* x, const S* weight, const T* bias, Sizes s, int64_t n) {
  const WindowAxis rows = s.w.rows, columns = s.w.columns;
  for (int64_t i = first_index(); i < n; i += grid_stride()) {
    const Place at(i, s.outputs, rows.count, columns.count);
    const S* image = x + (at.image * s.channels + at.channel / s.out * s.in) * s.w.elements();
    const S* factor = weight + at.channel * s.in * s.w.taps();
    T sum = T(0);
    for (int64_t c = 0; c < s.in; ++c, image += s.w.elements())
      for (int64_t a = 0; a < rows.kernel; ++a)
        for (int64_t b = 0; b < columns.kernel; ++b, ++factor) {
          const int64_t row = rows.element(at.row, a), column = columns.element(at.column, b);
          const bool inside = rows.holds(row) && columns.holds(column);
          sum +=
              static_cast<T>(*factor) * (inside ? static_cast<T>(image[row * columns.size + column]) : T(0));
        }
    y[i] = S(bias ? sum + bias[at.channel] : sum);
  }
}

template <class S, class T>
__global__ void convolution_backward_x_kernel(T* dx, const S* dy, const S* weight, Sizes s, int64_t n) {
  const WindowAxis rows = s.w.rows, columns = s.w.columns;
  for (int64_t i = first_index(); i < n; i += grid_stride()) {
    const Place at(i, s.channels, rows.size, columns.size);
    const int64_t first = at.channel / s.in * s.out;  // output of the group
    T sum = T(0);
    for (int64_t o = first; o < first + s.out; ++o) {
      const S* const image = dy + (at.image * s.outputs + o) * s.w.count();
      const S* factor = weight + (o * s.in + at.channel % s.in) * s.w.taps();
      for (int64_t a = 0; a < rows.kernel; ++a)
        for (int64_t b = 0; b < columns.kernel; ++b, ++factor) {
          const int64_t row = rows.window(at.row, a), column = columns.window(at.column, b);
          if (row < 0 || column < 0) continue;
          sum += static_cast<T>(*factor) * static_cast<T>(image[row * columns.count + column]);
        }
    }
    dx[i] = sum;
  }
}

template <class S, class T>
__global__ void convolution_backward_weight_kernel(T* dweight, const S* dy, const S* x, Sizes s) {
  const WindowAxis rows = s.w.rows, columns = s.w.columns;
  const Place at(int64_t{blockIdx.x}, s.in, rows.kernel, columns.kernel);  // image: the output
  const int64_t channel = at.image / s.out * s.in + at.channel, windows = s.w.count();
  T sum = T(0);
  for (int64_t i = threadIdx.x; i < s.images * windows; i += blockDim.x) {
    const int64_t image = i / windows, window = i % windows;
    const int64_t row = rows.element(window / columns.count, at.row),
                  column = columns.element(window % columns.count, at.column);
    const bool inside = rows.holds(row) && columns.holds(column);
    const S* const seen = x + (image * s.channels + channel) * s.w.elements();
    sum += static_cast<T>(dy[(image * s.outputs + at.image) * windows + window]) *
           (inside ? static_cast<T>(seen[row * columns.size + column]) : T(0));
  }
  sum = sum_block(sum);
  if (threadIdx.x == 0) dweight[blockIdx.x] = sum;
}

}  // namespace

void convolution(Tensor& y, const Tensor& x, const Tensor& weight, const Tensor& bias, const Windows& w) {
  if (y.numel() == 0) return;
  visit_device_floating(x.dtype(), "convolution", [&](auto type) {
    using S = typename decltype(type)::type;
    using T = AccumulatorOf<S>;
    const T* const shift = bias.defined() ? bias.data<T>() : nullptr;
    VITRINE_LAUNCH((convolution_kernel<S, T>), blocks_for(y.numel()), kThreads, 0, y.data<S>(), x.data<S>(),
                   weight.data<S>(), shift, Sizes(x, y, weight, w), y.numel());
  });
}

void convolution_backward_x(Tensor& dx, const Tensor& dy, const Tensor& weight, const Windows& w) {
  if (dx.numel() == 0) return;
  visit_device_floating(dy.dtype(), "convolution_backward_x", [&](auto type) {
    using S = typename decltype(type)::type;
    using T = AccumulatorOf<S>;
    VITRINE_LAUNCH((convolution_backward_x_kernel<S, T>), blocks_for(dx.numel()), kThreads, 0, dx.data<T>(),
                   dy.data<S>(), weight.data<S>(), Sizes(dx, dy, weight, w), dx.numel());
  });
}

void convolution_backward_weight(Tensor& dweight, const Tensor& dy, const Tensor& x, const Windows& w) {
  if (dweight.numel() == 0) return;
  visit_device_floating(x.dtype(), "convolution_backward_weight", [&](auto type) {
    using S = typename decltype(type)::type;
    using T = AccumulatorOf<S>;
    const unsigned blocks = grid_of(dweight.numel(), "convolution_backward_weight", "weights");
    VITRINE_LAUNCH((convolution_backward_weight_kernel<S, T>), blocks, threads_for(x.size(0) * w.count()), 0,
                   dweight.data<T>(), dy.data<S>(), x.data<S>(), Sizes(x, dy, dweight, w));
  });
}

}  // namespace vitrine::cuda
