// Reading and writing by index. Indices are int64 or int32. Negative indices count from the end,
// unless a comment says otherwise. An index out of range is an error that names it.
#pragma once

#include "ops/view.h"

namespace vitrine {

/// y[…, i, …] = x[…, index[…, i, …], …] along an axis. index has x's rank, and sizes up to x's on
/// the other axes. (PyTorch's gather, ONNX's GatherElements.)
Tensor gather(const Tensor& x, int64_t axis, const Tensor& index);
/// y = x with y[…, index[…, i, …], …] += source[…, i, …]. The order is fixed, so results do not
/// depend on the number of threads.
Tensor scatter_add(const Tensor& x, int64_t axis, const Tensor& index, const Tensor& source);
/// Takes whole slices along an axis: y.shape = x.shape with the axis replaced by index's shape.
/// (NumPy's take.)
Tensor index_select(const Tensor& x, int64_t axis, const Tensor& index);
/// Rows of table [V, C] for ids of any shape: [..., C]. An id outside [0, V) is an error.
Tensor embedding(const Tensor& table, const Tensor& ids);
/// 1 at each index along a new last axis of size `classes`, else 0. An index outside [0, classes)
/// is an error.
Tensor one_hot(const Tensor& index, int64_t classes, DType dtype = DType::float32);

}  // namespace vitrine
