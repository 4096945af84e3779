// Windows that slide along the axes of an image: the geometry of convolutions and of pooling.
#pragma once

#include <concepts>
#include <cstdint>
#include <string_view>

#include "core/float16.h"

namespace vitrine {

/// Elements that are added at both ends of an axis.
struct Padding {
  int64_t before = 0, after = 0;
  Padding(int64_t both = 0) : before(both), after(both) {}  // implicit, for `.padding = 1`
  Padding(int64_t before, int64_t after) : before(before), after(after) {}
};

/// A setting for both axes of an image: one value, or the values of rows (height) and columns
/// (width).
template <class T>
struct PerAxis {
  T rows, columns;
  template <std::convertible_to<T> Both>
  PerAxis(Both both) : rows(both), columns(both) {}  // implicit, for `.stride = 2`
  PerAxis(T rows, T columns) : rows(rows), columns(columns) {}
};

/// The windows along one axis. Tap k of window i is the element i·stride − before + k·dilation.
/// Elements outside [0, size) are padding.
struct WindowAxis {
  int64_t size = 1;    ///< elements of the axis
  int64_t count = 1;   ///< windows
  int64_t kernel = 1;  ///< taps of a window
  int64_t stride = 1, before = 0, dilation = 1;

  VITRINE_HD int64_t element(int64_t window, int64_t tap) const {
    return window * stride - before + tap * dilation;
  }
  VITRINE_HD bool holds(int64_t element) const { return element >= 0 && element < size; }
  /// The window whose tap `tap` is this element; −1 if there is none.
  VITRINE_HD int64_t window(int64_t element, int64_t tap) const {
    const int64_t begin = element + before - tap * dilation;
    return begin >= 0 && begin % stride == 0 && begin / stride < count ? begin / stride : -1;
  }
  /// The windows whose tap `tap` is in the axis, and not padding, are [first, last).
  VITRINE_HD int64_t first(int64_t tap) const { return beginning_before(before - tap * dilation); }
  VITRINE_HD int64_t last(int64_t tap) const { return beginning_before(size + before - tap * dilation); }
  /// The distance from the first to the last tap of a window, plus 1.
  VITRINE_HD int64_t extent() const { return (kernel - 1) * dilation + 1; }
  /// The elements from the begin of the first window to the end of the last one.
  VITRINE_HD int64_t covered() const { return count == 0 ? 0 : (count - 1) * stride + extent(); }

 private:
  /// The number of windows that begin before this element of the padded axis.
  VITRINE_HD int64_t beginning_before(int64_t element) const {
    const int64_t windows = element <= 0 ? 0 : (element + stride - 1) / stride;
    return windows < count ? windows : count;
  }
};

/// The windows of an image [H, W].
struct Windows {
  WindowAxis rows, columns;

  VITRINE_HD int64_t elements() const { return rows.size * columns.size; }
  VITRINE_HD int64_t count() const { return rows.count * columns.count; }
  VITRINE_HD int64_t taps() const { return rows.kernel * columns.kernel; }
};

/// The last window of an axis: only whole windows, or also one that ends after the padded axis. In
/// the second case it has to begin before the padding after the axis.
enum class LastWindow : bool { whole, partial };

/// The windows along an axis of `size` elements. An axis without elements has no windows. Errors
/// name the op and the axis: sizes below 1, and windows longer than the padded axis.
WindowAxis window_axis(std::string_view op, std::string_view axis, int64_t size, int64_t kernel,
                       int64_t stride, const Padding& padding, int64_t dilation,
                       LastWindow last = LastWindow::whole);

}  // namespace vitrine
