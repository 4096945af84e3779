// Each channel of an image is copied into a plane that includes its padding. No window then has to
// check where the image ends.
#include "ops/cpu/depthwise.h"

#include <algorithm>
#include <vector>

#include "core/memory/thread_buffer.h"
#include "ops/cpu/rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/depthwise.cpp"
#include "core/simd/dispatch.h"
#include "core/simd/vector_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vitrine {
namespace HWY_NAMESPACE {
namespace taps {

/// y[i] = bias + Σ_t weights[t]·x[t][i].
template <class S>
void add_taps(S* y, const S* const* x, const AccumulatorOf<S>* weights, size_t count, AccumulatorOf<S> bias,
              size_t n) {
  using T = AccumulatorOf<S>;
  for_each_vector<T>(n, [=](auto get, auto put) HWY_ATTR {
    Vec<T> sum(bias);
    for (size_t t = 0; t < count; ++t) sum = mul_add(Vec<T>(weights[t]), get(x[t]), sum);
    put(y, sum);
  });
}

}  // namespace taps
}  // namespace HWY_NAMESPACE
}  // namespace vitrine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vitrine::cpu {
namespace {

enum class Buffer { plane, sums };

/// The plane that the windows of an image cover, with its padding: `height` rows of `width`.
struct Plane {
  Windows w;
  int64_t height, width;

  explicit Plane(const Windows& windows)
      : w(windows), height(windows.rows.covered()), width(windows.columns.covered()) {}
  size_t size() const { return static_cast<size_t>(height * width); }

  /// Where tap (i, j) of the first window of a row of windows is.
  int64_t at(int64_t row, int64_t i, int64_t j) const {
    return (row * w.rows.stride + i * w.rows.dilation) * width + j * w.columns.dilation;
  }

  /// Calls f(offset in the image, offset in the plane, count) for each row that both have.
  template <class F>
  void for_each_shared_row(F&& f) const {
    const int64_t count = std::min(w.columns.size, width - w.columns.before);
    if (count <= 0) return;
    const int64_t rows = std::min(w.rows.size, height - w.rows.before);
    for (int64_t row = 0; row < rows; ++row)
      f(row * w.columns.size, (row + w.rows.before) * width + w.columns.before, count);
  }

  template <class S>
  const S* padded(const S* image) const {
    S* const plane = detail::thread_buffer<S, Buffer::plane>(size());
    std::fill_n(plane, size(), S(0));
    for_each_shared_row(
        [&](int64_t from, int64_t to, int64_t n) { std::copy_n(image + from, n, plane + to); });
    return plane;
  }

  /// Calls f(tap, offset of the tap) for the taps of a row of windows.
  template <class F>
  void for_each_tap(int64_t row, F&& f) const {
    int64_t tap = 0;
    for (int64_t i = 0; i < w.rows.kernel; ++i)
      for (int64_t j = 0; j < w.columns.kernel; ++j) f(tap++, at(row, i, j));
  }
};

/// The weights of one channel, in the type of sums.
template <class S>
std::vector<AccumulatorOf<S>> weights_of(const Tensor& weight, int64_t channel, int64_t taps) {
  const S* const from = weight.data<S>() + channel * taps;
  return {from, from + taps};
}

/// Calls f(n) in parallel for planes 0 … count − 1, each with windows.count() sums of taps.
template <class F>
void for_each_plane(int64_t count, const Windows& w, F&& f) {
  parallel_for(0, count, grain_for(w.taps() * w.count()), [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) f(n);
  });
}

}  // namespace

void depthwise(Tensor& y, const Tensor& x, const Tensor& weight, const Tensor& bias, const Windows& w) {
  visit_row_type(x.dtype(), "convolution", [&]<class S>(Type<S>) {
    using T = AccumulatorOf<S>;
    const Plane plane(w);
    const int64_t channels = x.size(1), count = w.columns.count, stride = w.columns.stride;
    for_each_plane(x.size(0) * channels, w, [&](int64_t n) {
      const S* const padded = plane.padded(x.data<S>() + n * w.elements());
      const auto weights = weights_of<S>(weight, n % channels, w.taps());
      const T first = bias.defined() ? bias.data<T>()[n % channels] : T(0);
      std::vector<const S*> taps(weights.size());
      for (int64_t row = 0; row < w.rows.count; ++row) {
        S* const out = y.data<S>() + (n * w.rows.count + row) * count;
        plane.for_each_tap(row, [&](int64_t t, int64_t at) { taps[static_cast<size_t>(t)] = padded + at; });
        if (stride == 1) {
          VITRINE_DISPATCH(taps::add_taps<S>)
          (out, taps.data(), weights.data(), taps.size(), first, static_cast<size_t>(count));
          continue;
        }
        for (int64_t i = 0; i < count; ++i) {
          T sum = first;
          for (size_t t = 0; t < taps.size(); ++t) sum += weights[t] * static_cast<T>(taps[t][i * stride]);
          out[i] = S(sum);
        }
      }
    });
  });
}

void depthwise_backward_x(Tensor& dx, const Tensor& dy, const Tensor& weight, const Windows& w) {
  visit_row_type(dy.dtype(), "convolution_backward_x", [&]<class S>(Type<S>) {
    using T = AccumulatorOf<S>;
    const Plane plane(w);
    const int64_t channels = dy.size(1), count = w.columns.count, stride = w.columns.stride;
    for_each_plane(dy.size(0) * channels, w, [&](int64_t n) {
      T* const sums = detail::thread_buffer<T, Buffer::sums>(plane.size());
      std::fill_n(sums, plane.size(), T(0));
      const auto weights = weights_of<S>(weight, n % channels, w.taps());
      for (int64_t row = 0; row < w.rows.count; ++row) {
        const S* const from = dy.data<S>() + (n * w.rows.count + row) * count;
        plane.for_each_tap(row, [&](int64_t t, int64_t at) {
          const T factor = weights[static_cast<size_t>(t)];
          if (stride == 1)
            vecmath::axpy(sums + at, factor, from, static_cast<size_t>(count));
          else
            for (int64_t i = 0; i < count; ++i) sums[at + i * stride] += factor * static_cast<T>(from[i]);
        });
      }
      T* const image = dx.data<T>() + n * w.elements();
      std::fill_n(image, w.elements(), T(0));
      plane.for_each_shared_row(
          [&](int64_t to, int64_t at, int64_t many) { std::copy_n(sums + at, many, image + to); });
    });
  });
}

void depthwise_backward_weight(Tensor& dweight, const Tensor& dy, const Tensor& x, const Windows& w) {
  visit_row_type(x.dtype(), "convolution_backward_weight", [&]<class S>(Type<S>) {
    using T = AccumulatorOf<S>;
    const Plane plane(w);
    const int64_t channels = x.size(1), count = w.columns.count, stride = w.columns.stride;
    for_each_plane(channels, w, [&](int64_t channel) {
      std::vector<double> sums(static_cast<size_t>(w.taps()), 0);
      for (int64_t image = 0; image < x.size(0); ++image) {
        const int64_t n = image * channels + channel;
        const S* const padded = plane.padded(x.data<S>() + n * w.elements());
        for (int64_t row = 0; row < w.rows.count; ++row) {
          const S* const from = dy.data<S>() + (n * w.rows.count + row) * count;
          plane.for_each_tap(row, [&](int64_t t, int64_t at) {
            double& sum = sums[static_cast<size_t>(t)];
            if (stride == 1)
              sum += static_cast<double>(vecmath::dot(from, padded + at, static_cast<size_t>(count)));
            else
              for (int64_t i = 0; i < count; ++i)
                sum += static_cast<double>(static_cast<T>(from[i]) * static_cast<T>(padded[at + i * stride]));
          });
        }
      }
      std::transform(sums.begin(), sums.end(), dweight.data<T>() + channel * w.taps(),
                     [](double sum) { return static_cast<T>(sum); });
    });
  });
}

}  // namespace vitrine::cpu
#endif
