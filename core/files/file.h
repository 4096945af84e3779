// Output files. A file is written completely or not at all. For reading see
// core/files/input_file.h.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "core/files/descriptor.h"
#include "core/tensor.h"

namespace vitrine {

/// The bytes of a contiguous tensor in the CPU's memory.
std::string_view bytes_of(const Tensor& x);

/// The path that a link leads to, through other links if need be. The file need not exist. A cycle
/// of links is an error.
std::string follow_links(std::string_view op, const std::string& path);

/// Throws an Error if write_file could not write: a folder, a device, a write-protected file, or a
/// place where no file can be created.
void check_can_write(std::string_view op, const std::string& path);

/// Writes the parts in order to a temporary file next to `path`, syncs it and renames it: even
/// after a crash, `path` is either the old file or the new one. The new file keeps the mode of the
/// old one, and its owner and group if the system permits. If `path` is a link, the link stays and
/// the file that it leads to is written. Temporary files of `path` that killed processes left are
/// removed. A device, a pipe, a folder or a write-protected file at `path` is an error. A failed
/// write is an error that gives the system's reason.
void write_file(std::string_view op, const std::string& path, std::span<const std::string_view> parts);

/// The same for bytes that are made while the file is written: `content` passes them to `write`,
/// piece by piece. What `content` throws leaves the old file as it is.
using WriteBytes = std::function<void(std::string_view bytes)>;
void write_file(std::string_view op, const std::string& path,
                const std::function<void(const WriteBytes& write)>& content);

/// A file that grows while a program runs.
class AppendedFile {
 public:
  /// Opens or creates the file. An existing file is continued if `keep` is true, else emptied. `op`
  /// begins the errors.
  AppendedFile(std::string_view op, const std::string& path, bool keep);
  /// Writes the bytes at the end. Errors: a full disk, or a file that was deleted or replaced since
  /// it was opened.
  void append(std::string_view bytes);

 private:
  std::string op_, path_;
  std::unique_ptr<detail::Descriptor> file_;
};

}  // namespace vitrine
