// The temporary file in which a new version of a file is written, before it gets the file's name.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "core/files/descriptor.h"

namespace vitrine::detail {

/// A new file next to `path`, called PATH.tmp- and 16 random digits, so that no other process meets
/// or prepares the name. While it lives it is locked (flock). A temporary file of `path` that
/// nobody locks belongs to a process that was killed: the constructor removes such files. Where the
/// file system has no locks, no temporary file is removed. `op` begins the errors.
class TemporaryFile {
 public:
  TemporaryFile(std::string_view op, const std::string& path);
  /// Removes the file, unless it has been renamed.
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  int descriptor() const { return file_->number; }
  /// Gives the file the mode, the owner and the group of the file at `path`, where there is one and
  /// the system permits it. Bits of a group that cannot be kept are reduced to those of all users.
  void take_permissions();
  /// Replaces the file at `path`, at once.
  void rename();

 private:
  std::string op_, path_, name_;
  std::unique_ptr<Descriptor> file_;
};

}  // namespace vitrine::detail
