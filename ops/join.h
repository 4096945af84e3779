// Operations that join tensors or repeat them.
#pragma once

#include "ops/view.h"

namespace vitrine {

/// Joins tensors along an existing axis; the other sizes must be equal. Dtypes are promoted.
Tensor concat(const std::vector<Tensor>& xs, int64_t axis = 0);
/// Joins tensors of equal shape along a new axis, at index `axis` of the result.
Tensor stack(const std::vector<Tensor>& xs, int64_t axis = 0);

/// The values of padding: a constant, the neighbours mirrored without the edge itself, the edge, or
/// the elements from the other end.
enum class PadMode { constant, reflect, edge, wrap };
/// Adds before[i] and after[i] elements along axis i. There is one entry per axis, at least 0;
/// reflect and wrap require enough elements. `value` is the constant of constant mode.
Tensor pad(const Tensor& x, const std::vector<int64_t>& before, const std::vector<int64_t>& after,
           PadMode mode = PadMode::constant, double value = 0);
/// Tiles x: axis i is repeated times[i] times, as in NumPy's tile; missing entries at the left are
/// 1.
Tensor tile(const Tensor& x, const std::vector<int64_t>& times);
/// Repeats each element `times` times in a row along an axis, as in NumPy's repeat.
Tensor repeat(const Tensor& x, int64_t times, int64_t axis);
/// Keeps the elements on and below (tril) or above (triu) the given diagonal of the last two axes;
/// the others are 0.
Tensor tril(const Tensor& x, int64_t diagonal = 0);
Tensor triu(const Tensor& x, int64_t diagonal = 0);

}  // namespace vitrine
