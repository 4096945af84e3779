// The arguments of a step of the ladder: the product and the layout of its operands.
#pragma once

#include <cstdint>

#include "core/tensor.h"

namespace vitrine::cuda {

/// The layout of a batch of matrices; strides are in elements.
struct Operand {
  int64_t row, column;        // strides of the last two axes: one of them is 1
  int64_t batch[Dims::kMax];  // strides of the leading axes of z; 0 if broadcast

  /// Whether the elements of a row are neighbours in memory. Otherwise the elements of a column
  /// are.
  VITRINE_HD bool by_rows() const { return column == 1; }
  /// The stride from one line (row or column) to the next.
  VITRINE_HD int64_t line() const { return by_rows() ? row : column; }
};

/// Whether every line of every matrix begins at a multiple of 16 bytes.
inline bool is_aligned(const Operand& o, const void* data, int64_t element_size) {
  bool aligned = reinterpret_cast<uintptr_t>(data) % 16 == 0 && o.line() * element_size % 16 == 0;
  for (const int64_t stride : o.batch) aligned = aligned && stride * element_size % 16 == 0;
  return aligned;
}

/// z = x·y + bias, or z += x·y + bias if `add`. x is [M, K], y [K, N], z [M, N], bias [N] or
/// nullptr. If `active` is not nullptr, it becomes gelu_tanh(z), with the same layout as z.
struct Product {
  DType dtype, out;  // of x, y and bias; of z, which may be wider
  int64_t M, N, K;
  int lead = 0;  // leading axes of z: all but the last two
  int64_t sizes[Dims::kMax] = {};
  Operand x, y, z;
  const void *x_data, *y_data, *bias;
  void* z_data;
  void* active = nullptr;
  bool add = false;

  int64_t batch() const {
    int64_t count = 1;
    for (int axis = 0; axis < lead; ++axis) count *= sizes[axis];
    return count;
  }
};

}  // namespace vitrine::cuda
