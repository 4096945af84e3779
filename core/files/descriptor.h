// File descriptors, for the files in core/ that make system calls.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace vitrine::detail {

/// A file descriptor that is closed at the end of its scope.
struct Descriptor {
  int number;
  explicit Descriptor(int n) : number(n) {}
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
};

/// Why the last system call failed.
inline std::string reason() { return std::strerror(errno); }

}  // namespace vitrine::detail
