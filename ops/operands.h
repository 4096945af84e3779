// What ops with a kernel of their own share.
#pragma once

#include <optional>
#include <string_view>

#include "core/creation.h"
#include "core/record.h"

namespace vitrine {

/// x itself where it is contiguous, else a contiguous copy. Not recorded: for kernels, under an op
/// that records x.
inline Tensor packed(const Tensor& x) { return x.is_contiguous() ? x : copy_as(x, x.dtype()); }

/// True where two axes of x, the last two by default, are a matrix as BLAS reads it: each row is
/// contiguous, and rows are apart by their length or more.
bool has_matrix_rows(const Tensor& x, int row_axis = -2, int column_axis = -1);

/// The distance between the rows of x [..., n], where each is contiguous and all follow one another
/// at one distance, n or more.
std::optional<int64_t> row_distance(const Tensor& x);
/// x [..., n] as [rows, n]: itself where its rows lie at one distance, else a contiguous copy. Not
/// recorded.
Tensor in_rows(const Tensor& x);

/// Memory for rows that tensor cores will read. On a GPU long ones of 16 bits begin at multiples of
/// 16 bytes, as copy engines want them; the distance from row to row is then more than n, and the
/// tensor not contiguous.
Tensor empty_rows(const char* op, const Shape& shape, DType dtype, Device device);

/// View with one axis moved to another place, the others staying in order.
Tensor move_axis(const Tensor& x, int64_t from, int64_t to);

/// An error that names the op and the argument, unless x has a floating dtype.
void check_floating(std::string_view op, std::string_view argument, const Tensor& x);

}  // namespace vitrine
