// Pooling: one number for each window of an image or a sequence.
#pragma once

#include "core/tensor.h"
#include "ops/windows.h"

namespace vitrine {

struct Pool1dOptions {
  int64_t stride = 0;   ///< 0: the length of the window
  Padding padding = 0;  ///< less than the extent of a window
  int64_t dilation = 1;
  LastWindow last = LastWindow::whole;
  /// Padding counts in an average, as zeros
  bool count_padding = true;
};

struct Pool2dOptions {
  PerAxis<int64_t> stride = 0;   ///< 0: the size of the window
  PerAxis<Padding> padding = 0;  ///< less than the extent of a window
  PerAxis<int64_t> dilation = 1;
  LastWindow last = LastWindow::whole;
  /// Padding counts in an average, as zeros
  bool count_padding = true;
};

/// The largest element of each window. x [N, C, H, W] → [N, C, H', W']. Padding is never chosen.
/// NaN if a window has one. The gradient goes to the first of equal elements, in the order of rows
/// and columns. Saves the position of each chosen element. A window whose taps are all in the
/// padding, which a dilation allows, gives −∞. Errors: as in conv2d, and padding as long as a
/// window.
Tensor max_pool2d(const Tensor& x, PerAxis<int64_t> kernel, const Pool2dOptions& options = {});
/// max_pool2d of sequences [N, C, T].
Tensor max_pool1d(const Tensor& x, int64_t kernel, const Pool1dOptions& options = {});

/// The average of each window. x [N, C, H, W] → [N, C, H', W']: the sum divided by the taps of
/// the window that count. What a partial window has after the padded image never counts.
/// A window in which nothing counts gives NaN.
Tensor avg_pool2d(const Tensor& x, PerAxis<int64_t> kernel, const Pool2dOptions& options = {});
/// avg_pool2d of sequences [N, C, T].
Tensor avg_pool1d(const Tensor& x, int64_t kernel, const Pool1dOptions& options = {});

namespace define {
/// The taps of all windows along a last axis, and the element that argmax names.
Tensor max_pool2d(const Tensor& x, PerAxis<int64_t> kernel, const Pool2dOptions& options = {});
}  // namespace define

}  // namespace vitrine
