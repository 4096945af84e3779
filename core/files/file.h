// Files as the formats need them: written whole or not at all. For reading see
// core/files/input_file.h.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "core/files/descriptor.h"
#include "core/tensor.h"

namespace vitrine {

/// The bytes of a contiguous tensor in the CPU's memory.
std::string_view bytes_of(const Tensor& x);

/// The path that a link leads to, by way of other links too; a file need not be there. A circle of
/// links is an error.
std::string follow_links(std::string_view op, const std::string& path);

/// An Error where write_file could not write: a folder, a device, a protected file, or no place for
/// a new file.
void check_can_write(std::string_view op, const std::string& path);

/// Writes the parts in order to a temporary file next to `path`, syncs, and renames: whatever
/// happens, `path` is the old file or the new one. The new file keeps the mode of the old one, and
/// its owner and group where the system permits. A link stays, and the file that it leads to is
/// written. Temporary files that killed processes have left of `path` are removed. A device, a
/// pipe, a folder or a write-protected file at `path` is an error; so is a failed write, with the
/// system's reason.
void write_file(std::string_view op, const std::string& path, std::span<const std::string_view> parts);

/// A file that grows while a program runs.
class AppendedFile {
 public:
  /// Creates the file; one that exists is continued if `keep`, else emptied. `op` begins the
  /// errors.
  AppendedFile(std::string_view op, const std::string& path, bool keep);
  /// Writes the bytes at the end. A full disk is an error; so is a file that was deleted or
  /// replaced since it was opened.
  void append(std::string_view bytes);

 private:
  std::string op_, path_;
  std::unique_ptr<detail::Descriptor> file_;
};

}  // namespace vitrine
