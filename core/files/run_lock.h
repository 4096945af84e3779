// A lock on output files: two runs that write the same files would corrupt them.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "core/files/descriptor.h"

namespace vitrine {

/// Locks `path`, a file or a folder that need not exist, for this object's lifetime. A second
/// RunLock of `path`, in any process on the same file system, is an error that names the process
/// that holds it. The lock is the file PATH.vitrine-lock, or .vitrine-lock inside a folder; it is
/// locked with flock and removed at the end. If the process is killed, the file stays but is
/// unlocked. Devices and pipes are not locked, and neither is anything on a file system without
/// locks. `op` begins the errors.
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
