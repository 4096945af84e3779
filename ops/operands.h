// Functions that ops with their own kernels share.
#pragma once

#include <optional>
#include <string_view>

#include "core/creation.h"
#include "core/record.h"

namespace vitrine {

/// x itself if it is contiguous, else a contiguous copy. Not recorded: for kernels of an op that
/// itself records x.
inline Tensor packed(const Tensor& x) { return x.is_contiguous() ? x : copy_as(x, x.dtype()); }

/// True if two axes of x, by default the last two, form a matrix that BLAS can read: each row is
/// contiguous, and the distance between rows is at least their length.
bool has_matrix_rows(const Tensor& x, int row_axis = -2, int column_axis = -1);

/// The distance between the rows of x [..., n], if each row is contiguous and all rows follow one
/// another at one distance, n or more.
std::optional<int64_t> row_distance(const Tensor& x);
/// x [..., n] as [rows, n]: a view if its rows are at one distance, else a contiguous copy. Not
/// recorded.
Tensor in_rows(const Tensor& x);

/// Memory for rows that tensor cores read. On a GPU, long rows of a 16-bit type begin at multiples
/// of 16 bytes, as copy engines require. The distance between rows is then more than n, and the
/// tensor is not contiguous.
Tensor empty_rows(const char* op, const Shape& shape, DType dtype, Device device);

/// A view with one axis moved to another position; the other axes keep their order.
Tensor move_axis(const Tensor& x, int64_t from, int64_t to);

/// Throws an error that names the op and the argument, unless x has a floating dtype.
void check_floating(std::string_view op, std::string_view argument, const Tensor& x);

}  // namespace vitrine
