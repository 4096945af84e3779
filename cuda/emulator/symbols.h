// Names for addresses: the line of a kernel that an instruction belongs to, and the __shared__
// variable that lies at an address.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace vitrine::emulator {

/// Memory of the program itself and of its libraries: constants, and variables that threads do not
/// have of their own.
bool is_program_data(const void* address, size_t size);

/// A `__shared__` variable with a fixed size, which is static and thread_local here.
struct SharedVariable {
  std::string name;
  size_t offset, size;  // from the begin of its StaticShared
};

/// Where the calling thread's variables of one program or library lie.
struct StaticShared {
  char* data = nullptr;
  size_t size = 0;
  std::vector<SharedVariable> variables;  // by offset
  bool has_symbols = false;               // else `variables` tells nothing

  /// The last one that begins at or before `offset`, or nullptr.
  const SharedVariable* find(size_t offset) const;
};

/// Those of the calling thread.
std::vector<StaticShared> static_shared();

/// "transpose.cu:31" for the return address of a call (from addr2line), or "" where it cannot be
/// told.
std::string source_line(const void* return_address);

}  // namespace vitrine::emulator
