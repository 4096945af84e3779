// Convolution as a product of matrices ("im2col"). What each window sees becomes a column, so that
// the weights of all outputs multiply all windows at once. plain::convolution in
// ops/convolution.cpp has the readable loop.
//
// The columns of a whole batch would be as many times larger than x as a kernel has taps. So the
// windows are processed in blocks, whose columns fit into the cache.
#include <algorithm>
#include <type_traits>

#include "core/memory/thread_buffer.h"
#include "ops/cpu/depthwise.h"
#include "ops/cpu/gemm/gemm.h"
#include "ops/cpu/rows.h"
#include "ops/kernels.h"

namespace vitrine::cpu {
namespace {

enum class Buffer { columns, products, outputs };

/// A matrix whose rows are `stride` apart.
template <class S>
struct Rows {
  S* data;
  int64_t stride;
};

/// The windows [begin, begin + count) of `images` images. The windows of the second image follow
/// those of the first.
struct Block {
  int64_t image, images, begin, count;
  int64_t windows() const { return images * count; }
};

/// The sizes of a convolution, and how its windows are cut into blocks. The blocks depend on sizes
/// alone.
struct Plan {
  Windows w;
  int64_t images, channels, outputs, groups, depth;  // depth: the weights of an output
  int64_t images_per_block, windows_per_block;

  /// x [N, C, H, W] and y [N, O, H', W'], or their gradients.
  Plan(const Tensor& x, const Tensor& y, const Tensor& weight, const Windows& windows)
      : w(windows),
        images(x.size(0)),
        channels(x.size(1)),
        outputs(y.size(1)),
        groups(weight.size(1) == 0 ? 1 : channels / weight.size(1)),
        depth(weight.size(1) * windows.taps()) {
    // A product packs all weights for each block, so that a block has many windows.
    constexpr int64_t kElements = 1 << 18, kFewest = 1024;
    const int64_t most = std::max(kFewest, kElements / std::max<int64_t>(1, groups * depth));
    const int64_t parts = (w.count() + most - 1) / most;
    windows_per_block = parts == 0 ? 1 : (w.count() + parts - 1) / parts;
    images_per_block = parts == 1 ? std::min(std::max<int64_t>(1, images), most / w.count()) : 1;
  }

  bool depthwise() const { return depth == w.taps() && outputs == groups; }
  int64_t blocks_per_image() const { return (w.count() + windows_per_block - 1) / windows_per_block; }
  int64_t blocks() const { return (images + images_per_block - 1) / images_per_block * blocks_per_image(); }
  Block block(int64_t i) const {
    const int64_t image = i / blocks_per_image() * images_per_block,
                  begin = i % blocks_per_image() * windows_per_block;
    return {image, std::min(images_per_block, images - image), begin,
            std::min(windows_per_block, w.count() - begin)};
  }
  /// Where the outputs of a block begin in y.
  int64_t first_output(const Block& b) const { return b.image * outputs * w.count() + b.begin; }
  /// Whether window i sees element i alone, so that x itself is its columns.
  bool pointwise() const {
    const auto same = [](const WindowAxis& a) {
      return a.kernel == 1 && a.stride == 1 && a.before == 0 && a.count == a.size;
    };
    return same(w.rows) && same(w.columns);
  }

  /// Calls f(row, column, count, at) for each run of windows of a block in one row of windows; `at`
  /// is the number of the first one in the block.
  template <class F>
  void for_each_run(const Block& b, F&& f) const {
    int64_t row = b.begin / w.columns.count, column = b.begin % w.columns.count;
    for (int64_t at = 0; at < b.count; ++row, column = 0) {
      const int64_t count = std::min(w.columns.count - column, b.count - at);
      f(row, column, count, at);
      at += count;
    }
  }
};

/// Calls f(row) in parallel for rows of n elements.
template <class F>
void for_each(int64_t rows, int64_t n, F&& f) {
  parallel_for(0, rows, grain_for(n), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) f(row);
  });
}

/// Calls f(run, element, count) for each run of a block's windows whose tap (i, j) is not padding:
/// the first window's number in the block, the first element in the image. The elements are `stride
/// of columns` apart.
template <class F>
void for_each_seen_run(const Plan& p, const Block& b, int64_t i, int64_t j, F&& f) {
  const WindowAxis &rows = p.w.rows, &columns = p.w.columns;
  const int64_t first = columns.first(j), last = columns.last(j);
  p.for_each_run(b, [&](int64_t row, int64_t column, int64_t count, int64_t at) {
    const int64_t h = rows.element(row, i);
    const int64_t begin = std::max(first, column), end = std::min(last, column + count);
    if (!rows.holds(h) || begin >= end) return;
    f(at + begin - column, h * columns.size + columns.element(begin, j), end - begin);
  });
}

/// What tap (i, j) of a block's windows sees of an image.
template <class S>
void unfold_tap(S* to, const S* image, int64_t i, int64_t j, const Plan& p, const Block& b) {
  const int64_t stride = p.w.columns.stride;
  int64_t done = 0;  // windows before this one are written
  for_each_seen_run(p, b, i, j, [&](int64_t at, int64_t element, int64_t count) {
    std::fill(to + done, to + at, S(0));
    if (stride == 1)
      std::copy_n(image + element, count, to + at);
    else
      for (int64_t k = 0; k < count; ++k) to[at + k] = image[element + k * stride];
    done = at + count;
  });
  std::fill(to + done, to + b.count, S(0));
}

/// The columns of a block: for each channel and tap a row of what the windows see.
template <class S>
Rows<const S> unfold(const S* x, const Plan& p, const Block& b) {
  const int64_t size = p.w.elements(), taps = p.w.taps(), windows = b.windows();
  if (p.pointwise() && b.images == 1) return {x + b.image * p.channels * size + b.begin, size};
  S* const columns =
      detail::thread_buffer<S, Buffer::columns>(static_cast<size_t>(p.channels * taps * windows));
  for_each(p.channels * taps, windows, [&](int64_t row) {
    const int64_t channel = row / taps, i = row % taps / p.w.columns.kernel, j = row % p.w.columns.kernel;
    for (int64_t n = 0; n < b.images; ++n)
      unfold_tap(columns + row * windows + n * b.count, x + ((b.image + n) * p.channels + channel) * size, i,
                 j, p, b);
  });
  return {columns, windows};
}

/// The reverse: each column is added to the elements that its window has seen.
template <class T>
void fold(T* dx, const T* columns, const Plan& p, const Block& b) {
  const int64_t taps = p.w.taps(), windows = b.windows(), stride = p.w.columns.stride;
  for_each(p.channels, taps * windows, [&](int64_t channel) {
    for (int64_t n = 0; n < b.images; ++n) {
      T* const image = dx + ((b.image + n) * p.channels + channel) * p.w.elements();
      for (int64_t t = 0; t < taps; ++t) {
        const int64_t i = t / p.w.columns.kernel, j = t % p.w.columns.kernel;
        const T* const from = columns + (channel * taps + t) * windows + n * b.count;
        for_each_seen_run(p, b, i, j, [&](int64_t at, int64_t element, int64_t count) {
          for (int64_t k = 0; k < count; ++k) image[element + k * stride] += from[at + k];
        });
      }
    }
  });
}

/// The rows of dy [O, windows] of a block: in place for one image, else copied together.
template <class S>
Rows<const S> outputs_of(const S* dy, const Plan& p, const Block& b) {
  const S* const first = dy + p.first_output(b);
  if (b.images == 1) return {first, p.w.count()};
  const int64_t windows = b.windows();
  S* const rows = detail::thread_buffer<S, Buffer::outputs>(static_cast<size_t>(p.outputs * windows));
  for_each(p.outputs, windows, [&](int64_t o) {
    for (int64_t n = 0; n < b.images; ++n)
      std::copy_n(first + (n * p.outputs + o) * p.w.count(), b.count, rows + o * windows + n * b.count);
  });
  return {rows, windows};
}

template <class T>
T* products_buffer(int64_t rows, int64_t columns) {
  return detail::thread_buffer<T, Buffer::products>(static_cast<size_t>(rows * columns));
}

/// Where the products of a block are computed: in y itself, if it has their type and the block is a
/// part of one image, else in a buffer.
template <class S, class T>
Rows<T> products_of(S* y, const Plan& p, const Block& b) {
  if constexpr (std::is_same_v<S, T>)
    if (b.images == 1) return {y + p.first_output(b), p.w.count()};
  return {products_buffer<T>(p.outputs, b.windows()), b.windows()};
}

/// y = products + bias, rounded once.
template <class S, class T>
void store(S* y, const Rows<T>& products, const T* bias, const Plan& p, const Block& b) {
  const int64_t windows = b.windows();
  const bool in_place = std::is_same_v<S, T> && b.images == 1;
  if (in_place && bias == nullptr) return;
  for_each(p.outputs, windows, [&](int64_t o) {
    T* const row = products.data + o * products.stride;
    if (bias != nullptr) vecmath::scale(row, row, T(1), static_cast<size_t>(windows), -bias[o]);
    if (in_place) return;
    for (int64_t n = 0; n < b.images; ++n)
      vecmath::convert(y + p.first_output(b) + (n * p.outputs + o) * p.w.count(), row + n * b.count,
                       static_cast<size_t>(b.count));
  });
}

/// One product for each group; `a`, `b` and `c` are the distances between the groups' matrices.
MatrixBatch groups_of(const Plan& p, int64_t a, int64_t b, int64_t c) {
  return {.inner_count = p.groups, .a = {0, a}, .b = {0, b}, .c = {0, c}};
}

}  // namespace

void convolution(Tensor& y, const Tensor& x, const Tensor& weight, const Tensor& bias, const Windows& w) {
  const Plan p(x, y, weight, w);
  if (y.numel() == 0) return;
  if (p.depthwise()) return depthwise(y, x, weight, bias, w);
  visit_row_type(x.dtype(), "convolution", [&]<class S>(Type<S>) {
    using T = AccumulatorOf<S>;
    const int64_t outputs = p.outputs / p.groups;
    parallel_for(0, p.blocks(), 1, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        const Block b = p.block(i);
        const int64_t windows = b.windows();
        const Rows<const S> columns = unfold(x.data<S>(), p, b);
        const Rows<T> products = products_of<S, T>(y.data<S>(), p, b);
        gemm_batched<S, T>(
            groups_of(p, outputs * p.depth, p.depth * columns.stride, outputs * products.stride), Trans::no,
            Trans::no, outputs, windows, p.depth, 1, weight.data<S>(), p.depth, columns.data, columns.stride,
            0, products.data, products.stride);
        store(y.data<S>(), products, bias.defined() ? bias.data<T>() : nullptr, p, b);
      }
    });
  });
}

// The blocks of both gradients run one after another, because they add to the same elements. Within
// a block, products and rows run in parallel.

void convolution_backward_x(Tensor& dx, const Tensor& dy, const Tensor& weight, const Windows& w) {
  const Plan p(dx, dy, weight, w);
  if (dx.numel() == 0) return;
  if (p.depthwise()) return depthwise_backward_x(dx, dy, weight, w);
  fill(dx, 0);
  visit_row_type(dy.dtype(), "convolution_backward_x", [&]<class S>(Type<S>) {
    using T = AccumulatorOf<S>;
    const int64_t outputs = p.outputs / p.groups;
    for (int64_t i = 0; i < p.blocks(); ++i) {
      const Block b = p.block(i);
      const int64_t windows = b.windows();
      const Rows<const S> rows = outputs_of(dy.data<S>(), p, b);
      T* const columns = products_buffer<T>(p.groups * p.depth, windows);
      gemm_batched<S, T>(groups_of(p, outputs * p.depth, outputs * rows.stride, p.depth * windows),
                         Trans::yes, Trans::no, p.depth, windows, outputs, 1, weight.data<S>(), p.depth,
                         rows.data, rows.stride, 0, columns, windows);
      fold(dx.data<T>(), columns, p, b);
    }
  });
}

void convolution_backward_weight(Tensor& dweight, const Tensor& dy, const Tensor& x, const Windows& w) {
  const Plan p(x, dy, dweight, w);
  if (dweight.numel() == 0) return;
  if (p.depthwise()) return depthwise_backward_weight(dweight, dy, x, w);
  fill(dweight, 0);
  visit_row_type(x.dtype(), "convolution_backward_weight", [&]<class S>(Type<S>) {
    using T = AccumulatorOf<S>;
    const int64_t outputs = p.outputs / p.groups;
    for (int64_t i = 0; i < p.blocks(); ++i) {
      const Block b = p.block(i);
      const Rows<const S> rows = outputs_of(dy.data<S>(), p, b), columns = unfold(x.data<S>(), p, b);
      gemm_batched<S, T>(groups_of(p, outputs * rows.stride, p.depth * columns.stride, outputs * p.depth),
                         Trans::no, Trans::yes, outputs, p.depth, b.windows(), 1, rows.data, rows.stride,
                         columns.data, columns.stride, 1, dweight.data<T>(), p.depth);
    }
  });
}

}  // namespace vitrine::cpu
