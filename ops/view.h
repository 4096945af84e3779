// Shape operations. Those marked "view" share the storage of x. The time of their gradients depends
// on the size of the view, not of x.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/tensor.h"

namespace vitrine {

/// Numbers of axes; negative ones count from the end.
using Axes = std::vector<int64_t>;

/// View if the strides allow it, else a copy. One size may be −1, and is inferred from the others.
Tensor reshape(const Tensor& x, const Shape& shape);
/// Merges the axes first … last (inclusive) into one.
Tensor flatten(const Tensor& x, int64_t first = 0, int64_t last = -1);
/// View: axis i of y is axis axes[i] of x.
Tensor permute(const Tensor& x, const Axes& axes);
/// View with two axes swapped; the last two by default.
Tensor transpose(const Tensor& x, int64_t axis0 = -2, int64_t axis1 = -1);
/// View: repeats axes of size 1 without copying (stride 0), adding axes at the left. The gradient
/// is summed back.
Tensor expand(const Tensor& x, const Shape& shape);
/// View without the given axes of size 1, or without all such axes if none are given.
Tensor squeeze(const Tensor& x, const Axes& axes = {});
/// View with a new axis of size 1, at index `axis` of the result.
Tensor unsqueeze(const Tensor& x, int64_t axis);
/// View of x[…, start:stop:step, …] along an axis, with NumPy's rules for negative and out-of-range
/// bounds. A missing bound is the end of the axis, depending on the step's sign. A step of 0 is an
/// error.
Tensor slice(const Tensor& x, int64_t axis, std::optional<int64_t> start,
             std::optional<int64_t> stop = std::nullopt, int64_t step = 1);
/// View of x[…, index, …]: one axis less. Negative indices count from the end.
Tensor select(const Tensor& x, int64_t axis, int64_t index);
/// Views of `size` elements each along an axis; the last one may be shorter. An empty axis gives
/// one view.
std::vector<Tensor> split(const Tensor& x, int64_t size, int64_t axis = 0);
/// Views of the given sizes along an axis; the sizes must add up to the axis's size. The gradient
/// is put together once, whereas the gradients of slices are added into zeros one by one.
std::vector<Tensor> split(const Tensor& x, const std::vector<int64_t>& sizes, int64_t axis = 0);
/// View with the order along the axes reversed.
Tensor flip(const Tensor& x, const Axes& axes);
/// View of the diagonal of the last two axes, `offset` above the main one.
Tensor diagonal(const Tensor& x, int64_t offset = 0);

/// x itself if it is contiguous, else a contiguous copy.
Tensor contiguous(const Tensor& x);
/// A copy with its own storage.
Tensor clone(const Tensor& x);
/// x in another dtype; x itself if it already has that dtype. The gradient between floating types
/// is cast back; conversion to an integer ends it. A dual64 stays one in place of any floating
/// dtype, so that exact derivatives are not lost.
Tensor cast(const Tensor& x, DType dtype);
/// x on another device; x itself if it is already there.
Tensor to(const Tensor& x, Device device);
/// The same values as a constant: gradients end here.
Tensor detach(const Tensor& x);

}  // namespace vitrine
