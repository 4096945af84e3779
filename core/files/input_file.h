// A file opened for reading.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/files/descriptor.h"
#include "core/tensor.h"

namespace vitrine {

/// Reads parts of a file into memory. A mapping would save the copy, but a signal kills a process
/// that reads a mapped file which another process has truncated; here truncation is an error. `op`
/// begins the errors.
class InputFile {
 public:
  /// A path that cannot be opened or is not a regular file is an error with the system's reason.
  InputFile(std::string_view op, const std::string& path);

  size_t bytes() const { return bytes_; }  ///< the size when it was opened
  /// Fills `into` from the bytes at `offset`. A file that was truncated since it was opened is an
  /// error.
  void read(size_t offset, std::span<char> into) const;
  std::string text(size_t offset, size_t bytes) const;
  /// The same, in memory that tensors can share.
  std::shared_ptr<Storage> block(size_t offset, size_t bytes) const;

 private:
  std::string op_, path_;
  detail::Descriptor file_;
  size_t bytes_ = 0;
};

/// The row-major tensor at byte `offset` of a block. The caller has checked that the block contains
/// it. An aligned tensor shares the block's memory and counts its own writes; an unaligned one is
/// copied. A bool that is neither 0 nor 1 is an error, which `what` begins.
Tensor tensor_in(std::string_view what, const std::shared_ptr<Storage>& block, size_t offset,
                 const Shape& shape, DType dtype);

}  // namespace vitrine
