// Indices and sizes of threads and blocks.
#pragma once

#include <cstdint>
#include <string>

#include "cuda/emulator/vector_types.h"

namespace vitrine::emulator {

using Index3 = ::uint3;
struct Size3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr Size3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
  uint64_t count() const { return uint64_t{x} * y * z; }
};

/// The i-th index of `size`, x fastest.
inline Index3 index_of(uint64_t i, Size3 size) {
  return {static_cast<unsigned>(i % size.x), static_cast<unsigned>(i / size.x % size.y),
          static_cast<unsigned>(i / size.x / size.y)};
}
/// "(5, 0, 0)".
std::string to_string(Index3 index);

/// "sum<float>" of "(sum<float>)", as macros need parentheses around commas.
std::string without_parentheses(const std::string& kernel);

struct Launch {
  std::string kernel;
  Size3 grid, block;
  size_t shared_bytes = 0;
  bool traced = false;             // the kernel reports its accesses (trace.h)
  const void* function = nullptr;  // as cudaFuncSetAttribute knows it
};

}  // namespace vitrine::emulator
