// Which rows of a leaf's gradient an embedding has written. The gradient of a large table is 0 in
// almost all rows, because a step reads no more rows than it has tokens. So a leaf keeps the memory
// of such a gradient for the next step. The next gradient then begins by clearing the written rows,
// not the whole table.
//
// Everyone who reads the gradient sees an ordinary dense tensor. A write that is not known to keep
// the zeros ends the bookkeeping, and so does a handle that is given to the user, who may write
// through it. The next gradient then begins with new zeros.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "core/tensor.h"

namespace vitrine {

/// The bookkeeping of one leaf. It serves large tables on the CPU, and does nothing for others.
class WrittenRows {
 public:
  /// Zeros for a new gradient: what keep() has kept, if it fits, with the written rows cleared.
  Tensor zeros(const Shape& shape, DType dtype, Device device);
  /// Whether `grad` is known to be 0 outside the noted rows.
  bool describe(const Tensor& grad) const;
  /// Notes that rows of `grad` have been written, where describe(grad) held before.
  void note(const Tensor& grad, const Tensor& rows);
  /// Notes a write that left zeros zero, where describe(grad) held before.
  void confirm(const Tensor& grad);
  /// A handle on the gradient is given to the user.
  void hand_out() { handed_out_.store(true, std::memory_order_relaxed); }
  /// Keeps the memory of a gradient that ends, if describe(grad) holds and nobody else sees it.
  void keep(Tensor grad);
  /// Frees what keep() has kept.
  void drop();

 private:
  std::vector<Tensor> rows_;  ///< own copies, int64
  int64_t count_ = 0;         ///< of rows in rows_
  std::weak_ptr<Storage> storage_;
  uint32_t version_ = 0;  ///< of the storage after the last known write
  std::atomic<bool> handed_out_{false};
  Tensor kept_;
};

}  // namespace vitrine
