// Shape operations. Those marked "view" share the storage of x; their gradients cost what they
// touch.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/tensor.h"

namespace vitrine {

/// Numbers of axes; negative ones count from the end.
using Axes = std::vector<int64_t>;

/// View where the strides allow it, else a copy. One size may be −1: what remains.
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
/// View without the given axes of size 1 (all such axes where none are given).
Tensor squeeze(const Tensor& x, const Axes& axes = {});
/// View with a new axis of size 1 at the given place of the result.
Tensor unsqueeze(const Tensor& x, int64_t axis);
/// View of x[…, start:stop:step, …] along an axis, with NumPy's rules for negative and out-of-range
/// bounds; a missing bound is the end that the step's sign leaves. A step of 0 is an error.
Tensor slice(const Tensor& x, int64_t axis, std::optional<int64_t> start,
             std::optional<int64_t> stop = std::nullopt, int64_t step = 1);
/// View of x[…, index, …]: one axis less. Negative indices count from the end.
Tensor select(const Tensor& x, int64_t axis, int64_t index);
/// Views of `size` elements along an axis each, the last one shorter if it must be. An empty axis
/// gives one view.
std::vector<Tensor> split(const Tensor& x, int64_t size, int64_t axis = 0);
/// Views of the given sizes along an axis; they must add up to its size. Its gradient is put
/// together once, where slices would be added into zeros one by one.
std::vector<Tensor> split(const Tensor& x, const std::vector<int64_t>& sizes, int64_t axis = 0);
/// View with the order along the axes reversed.
Tensor flip(const Tensor& x, const Axes& axes);
/// View of the diagonal of the last two axes, `offset` above the main one.
Tensor diagonal(const Tensor& x, int64_t offset = 0);

/// x itself where it is contiguous, else a contiguous copy.
Tensor contiguous(const Tensor& x);
/// A copy with storage of its own.
Tensor clone(const Tensor& x);
/// x in another dtype; x itself where it has it. Between floating types the gradient is cast back;
/// to an integer it ends.
Tensor cast(const Tensor& x, DType dtype);
/// x on another device; x itself where it is there.
Tensor to(const Tensor& x, Device device);
/// The same values as a constant: gradients end here.
Tensor detach(const Tensor& x);

}  // namespace vitrine
