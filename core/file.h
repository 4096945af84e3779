// Files as the formats need them: mapped for reading, written whole or not at all.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/tensor.h"

namespace vitrine {

/// A file mapped privately: writing to the memory never reaches it. `op` begins the errors.
class MappedFile {
 public:
  /// A file that cannot be opened or mapped is an error with the system's reason.
  MappedFile(std::string_view op, const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  char* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  char* data_ = nullptr;
  size_t bytes_ = 0;
};

/// The row-major tensor that lies `offset` bytes into the file; the caller has checked that it fits. Where it is aligned
/// it shares the mapping, else it is a copy. A bool that is neither 0 nor 1 is an error, whose message begins with `what`.
Tensor tensor_in(std::string_view what, const std::shared_ptr<MappedFile>& file, size_t offset,
                 const Shape& shape, DType dtype);

/// The bytes of a contiguous tensor in the CPU's memory.
std::string_view bytes_of(const Tensor& x);

/// An Error where write_file could not write: a folder, a device, or no place for a new file.
void check_can_write(std::string_view op, const std::string& path);

/// Writes the parts one behind the other to a temporary file beside `path`, syncs, and renames: whatever happens, `path`
/// is the old file or the new one; a link stays, and what it leads to is written. What is there and no file, a device or a pipe, is
/// an error; so is what fails, with the system's reason.
void write_file(std::string_view op, const std::string& path, std::span<const std::string_view> parts);

}  // namespace vitrine
