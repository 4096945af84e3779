// The temporary file to which a new version of a file is written before it is renamed.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "core/files/descriptor.h"

namespace vitrine::detail {

/// A new file next to `path`, named PATH.tmp- and 16 random hexadecimal digits, so that no other
/// process uses or predicts the name. It is locked (flock) while this object lives. An unlocked
/// temporary file of `path` belongs to a process that was killed, and the constructor removes it.
/// On a file system without locks no temporary file is removed. `op` begins the errors.
class TemporaryFile {
 public:
  TemporaryFile(std::string_view op, const std::string& path);
  /// Removes the file, unless it has been renamed.
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  int descriptor() const { return file_->number; }
  /// Gives the file the mode, owner and group of the file at `path`, if there is one and the system
  /// permits it. If the group cannot be kept, the group's permission bits are reduced to those of
  /// all users.
  void take_permissions();
  /// Atomically replaces the file at `path`.
  void rename();

 private:
  std::string op_, path_, name_;
  std::unique_ptr<Descriptor> file_;
};

}  // namespace vitrine::detail
