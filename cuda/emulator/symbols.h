// Names for addresses: the kernel's source line of an instruction, and the __shared__ variable at
// an address.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace vitrine::emulator {

/// Whether an address is in the program itself or its libraries: constants and variables that are
/// not thread-local.
bool is_program_data(const void* address, size_t size);

/// A `__shared__` variable with a fixed size, which is static and thread_local here.
struct SharedVariable {
  std::string name;
  size_t offset, size;  // from the beginning of its StaticShared
};

/// The calling thread's static shared variables of one program or library.
struct StaticShared {
  char* data = nullptr;
  size_t size = 0;
  std::vector<SharedVariable> variables;  // by offset
  bool has_symbols = false;               // if false, `variables` is not known

  /// The last variable that begins at or before `offset`, or nullptr.
  const SharedVariable* find(size_t offset) const;
};

/// The variables of the calling thread, by program and library.
std::vector<StaticShared> static_shared();

/// "transpose.cu:31" for the return address of a call (from addr2line), or "" if it is not known.
std::string source_line(const void* return_address);

}  // namespace vitrine::emulator
