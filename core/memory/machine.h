// The machine's memory.
#pragma once

#include <unistd.h>

#include <limits>
#include <string>

#include "core/error.h"

namespace vitrine {

/// The machine's memory in bytes; infinite if the system does not report it.
inline double machine_memory() {
  const long pages = ::sysconf(_SC_PHYS_PAGES), bytes = ::sysconf(_SC_PAGESIZE);
  return pages > 0 && bytes > 0 ? static_cast<double>(pages) * static_cast<double>(bytes)
                                : std::numeric_limits<double>::infinity();
}

/// Throws an error, which `what` begins, if the machine has less than `bytes` of memory. Used to
/// refuse work before it fills the memory. The number is a double, because products of sizes
/// overflow an int64.
inline void check_memory(double bytes, const std::string& what) {
  constexpr double kGiB = 1 << 30;
  check(bytes <= machine_memory(), "{}: this takes at least {:.3g} GiB of memory, and the machine has {:.3g}",
        what, bytes / kGiB, machine_memory() / kGiB);
}

}  // namespace vitrine
