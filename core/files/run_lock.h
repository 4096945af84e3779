// Two runs that write the same files spoil them: a run locks what it writes.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "core/files/descriptor.h"

namespace vitrine {

/// Holds `path`, a file or a folder that need not exist, for this object's lifetime. A second
/// RunLock of `path`, of any process that sees the same file system, is an error that names the
/// process which holds it. The lock is the file PATH.vitrine-lock, in a folder .vitrine-lock; it is
/// locked (flock) and removed at the end. A killed process leaves the file unlocked. Devices and
/// pipes are not locked, nor is anything on a file system without locks. `op` begins the errors.
class RunLock {
 public:
  RunLock(std::string_view op, const std::string& path);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  std::string name_;
  std::unique_ptr<detail::Descriptor> file_;
};

}  // namespace vitrine
