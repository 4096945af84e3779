// A file opened for reading, or mapped into memory.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/files/descriptor.h"
#include "core/tensor.h"

namespace vitrine {

/// Reads parts of a file into memory, where truncation by another process is an error. `op` begins
/// the errors.
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
  /// The whole file, mapped: the system reads a page when it is first touched, and drops it when
  /// memory is short. Writes go to a copy of the page, never to the file. The file must not be
  /// truncated meanwhile, because a signal ends a process that touches a missing page. write_file
  /// replaces files without truncating them. An empty file is an error.
  std::shared_ptr<Storage> mapped() const;

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
