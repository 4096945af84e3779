#include "ops/pooling.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "ops/convolution.h"
#include "ops/cpu/rows.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/join.h"
#include "ops/kernels.h"
#include "ops/operands.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace vitrine {
namespace {

constexpr double kLowest = -std::numeric_limits<double>::infinity();

WindowAxis pool_axis(const char* op, const char* axis, int64_t size, int64_t kernel, int64_t stride,
                     const Padding& padding, int64_t dilation, LastWindow last) {
  const WindowAxis a =
      window_axis(op, axis, size, kernel, stride == 0 ? kernel : stride, padding, dilation, last);
  check(std::max(padding.before, padding.after) < a.extent(),
        "{}: the padding ({}, {}) of {} hides a whole window of {}", op, padding.before, padding.after, axis,
        a.extent());
  return a;
}

void check_pooled(const char* op, int axes, const Tensor& x) {
  check_floating(op, "x", x);
  check(x.rank() == 2 + axes, "{}: x is {}, wanted {}", op, x.shape(),
        axes == 1 ? "[N, C, T]" : "[N, C, H, W]");
}

Windows pool_windows(const char* op, const Tensor& x, const PerAxis<int64_t>& kernel,
                     const Pool2dOptions& o) {
  check_pooled(op, 2, x);
  return {.rows = pool_axis(op, "rows", x.size(2), kernel.rows, o.stride.rows, o.padding.rows,
                            o.dilation.rows, o.last),
          .columns = pool_axis(op, "columns", x.size(3), kernel.columns, o.stride.columns, o.padding.columns,
                               o.dilation.columns, o.last)};
}

/// A sequence as an image of one row, pooled by f.
template <class F>
Tensor pool_sequence(const char* op, const Tensor& x, int64_t kernel, const Pool1dOptions& o, F f) {
  check_pooled(op, 1, x);
  pool_axis(op, "positions", x.size(2), kernel, o.stride, o.padding, o.dilation, o.last);
  const Pool2dOptions options{.stride = {1, o.stride},
                              .padding = {0, o.padding},
                              .dilation = {1, o.dilation},
                              .last = o.last,
                              .count_padding = o.count_padding};
  return squeeze(f(unsqueeze(x, 2), {1, kernel}, options), {2});
}

/// Padding that the windows reach after `size` elements, which begin `before` elements after the
/// first window does.
int64_t padding_after(const WindowAxis& a, int64_t before, int64_t size) {
  return std::max<int64_t>(0, a.covered() - before - size);
}

}  // namespace

Tensor define::max_pool2d(const Tensor& x, PerAxis<int64_t> kernel, const Pool2dOptions& o) {
  const Windows w = pool_windows("max_pool2d", x, kernel, o);
  const auto& [rows, columns] = w;
  const Tensor padded = pad(x, {0, 0, rows.before, columns.before},
                            {0, 0, padding_after(rows, rows.before, rows.size),
                             padding_after(columns, columns.before, columns.size)},
                            PadMode::constant, kLowest);
  std::vector<Tensor> taps;
  for (int64_t i = 0; i < rows.kernel; ++i)
    for (int64_t j = 0; j < columns.kernel; ++j) {
      const int64_t row = i * rows.dilation, column = j * columns.dilation;
      const Tensor lines = slice(padded, 2, row, row + rows.count * rows.stride, rows.stride);
      taps.push_back(slice(lines, 3, column, column + columns.count * columns.stride, columns.stride));
    }
  const Tensor all = stack(taps, -1);
  return squeeze(gather(all, -1, argmax(all, {-1}, KeepAxes::yes)), {-1});
}

Tensor max_pool2d(const Tensor& x, PerAxis<int64_t> kernel, const Pool2dOptions& o) {
  const Windows w = pool_windows("max_pool2d", x, kernel, o);
  check(w.taps() < 1 << 24, "max_pool2d: a window has {} taps, wanted less than 2^24", w.taps());
  const Shape shape = {x.size(0), x.size(1), w.rows.count, w.columns.count};
  if (numel(shape) == 0) return empty(shape, x.dtype(), x.device());
  if (const auto y = through_definition({x}, [&] { return define::max_pool2d(x, kernel, o); })) return *y;
  Tensor y = empty(shape, x.dtype(), x.device()), chosen = empty(shape, DType::int64, x.device());
  VITRINE_RUN(max_pool, y, chosen, packed(x), w);
  return record("max_pool2d", {x}, y,
                [chosen = Saved(chosen), w, image = x.shape()](const Tensor& dy) -> Grads {
                  Tensor dx = empty(image, dy.dtype(), dy.device());
                  VITRINE_RUN(max_pool_backward, dx, packed(dy), chosen, w);
                  return {dx};
                });
}

void cpu::max_pool_backward(Tensor& dx, const Tensor& dy, const Tensor& chosen, const Windows& w) {
  visit_row_type(dy.dtype(), "max_pool_backward", [&]<class S>(Type<S>) {
    using T = AccumulatorOf<S>;
    const int64_t images = dx.size(0) * dx.size(1);
    parallel_for(0, images, grain_for(w.elements() + w.count()), [&](int64_t begin, int64_t end) {
      std::vector<T> sums(static_cast<size_t>(w.elements()));
      for (int64_t n = begin; n < end; ++n) {
        std::fill(sums.begin(), sums.end(), T(0));
        const S* const from = dy.data<S>() + n * w.count();
        const int64_t* const at = chosen.data<int64_t>() + n * w.count();
        for (int64_t i = 0; i < w.count(); ++i)
          if (at[i] >= 0) sums[static_cast<size_t>(at[i])] += static_cast<T>(from[i]);
        vecmath::convert(dx.data<S>() + n * w.elements(), sums.data(), sums.size());
      }
    });
  });
}

Tensor max_pool1d(const Tensor& x, int64_t kernel, const Pool1dOptions& o) {
  return pool_sequence("max_pool1d", x, kernel, o, max_pool2d);
}

// An average is a convolution of each channel with ones, divided by the same convolution of ones.

Tensor avg_pool2d(const Tensor& x, PerAxis<int64_t> kernel, const Pool2dOptions& o) {
  const Windows w = pool_windows("avg_pool2d", x, kernel, o);
  const auto& [rows, columns] = w;
  const Shape shape = {x.size(0), x.size(1), rows.count, columns.count};
  if (numel(shape) == 0) return empty(shape, x.dtype(), x.device());
  const DType wide = accumulation_dtype(x.dtype());
  const Tensor taps = ones({1, 1, rows.kernel, columns.kernel}, wide, x.device());
  // The sums over windows of images that begin `top` and `left` after the first window does.
  const auto sums = [&](const Tensor& images, int64_t top, int64_t left) {
    const Padding vertical(top, padding_after(w.rows, top, images.size(2))),
        horizontal(left, padding_after(w.columns, left, images.size(3)));
    return conv2d(images, taps, {},
                  {.stride = {w.rows.stride, w.columns.stride},
                   .padding = {vertical, horizontal},
                   .dilation = o.dilation});
  };
  const Tensor images = reshape(cast(x, wide), {x.size(0) * x.size(1), 1, x.size(2), x.size(3)});
  const Tensor total = sums(images, rows.before, columns.before);
  const auto counted = [&](const WindowAxis& a, const Padding& padding) {
    return o.count_padding ? padding.before + a.size + padding.after : a.size;
  };
  const Tensor counts =
      sums(ones({1, 1, counted(rows, o.padding.rows), counted(columns, o.padding.columns)}, wide, x.device()),
           o.count_padding ? 0 : rows.before, o.count_padding ? 0 : columns.before);
  return cast(reshape(total / counts, shape), x.dtype());
}

Tensor avg_pool1d(const Tensor& x, int64_t kernel, const Pool1dOptions& o) {
  return pool_sequence("avg_pool1d", x, kernel, o, avg_pool2d);
}

}  // namespace vitrine
