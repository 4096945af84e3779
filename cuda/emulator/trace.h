// Checks and counts the reads and writes of the threads of a block. Kernels in files compiled with
// VITRINE_TRACE_OPTIONS (all of cuda/ with VITRINE_EMULATOR_TRACE=ON) report each access: GCC's and
// clang's -fsanitize=thread inserts a call before it, for ThreadSanitizer's runtime. callbacks.cpp
// implements these calls in place of that runtime.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cuda/emulator/counts.h"
#include "cuda/emulator/index.h"
#include "cuda/emulator/memory.h"
#include "cuda/emulator/races.h"
#include "cuda/emulator/symbols.h"

namespace vitrine::emulator {

class Trace {
 public:
  void start_block(const Launch& launch, std::span<char> dynamic_shared);
  /// Notes an access. Returns the mistake, or "". So do synchronize() and finish_block(), which
  /// report a read of unwritten shared memory, unless a race is the cause.
  std::string access(const void* address, size_t size, size_t thread, Access access, const void* pc,
                     size_t element);

  /// Counts `count` products of tensor cores.
  void multiply_matrices(uint64_t count) {
    if (counting_) warps_.multiply_matrices(count);
  }
  /// A thread has reached a barrier or a warp function.
  void advance(size_t thread);
  /// All threads of a barrier have arrived: the threads of the block, or lanes of the warp that
  /// begins with thread `first`.
  std::string synchronize();
  void synchronize(size_t first, uint32_t lanes) { races_.synchronize(first, lanes); }
  void end(size_t thread);
  std::string finish_block();

 private:
  struct Region {  // of shared memory
    char* data;
    size_t size;
    StaticShared variables;  // of static memory
    SharedHistory history;
  };
  std::string access_shared(Region& region, const void* address, size_t size, Touch touch, size_t element);
  std::string access_global(const void* address, size_t size, const Touch& touch, size_t element);
  std::string describe(const Touch& touch, size_t size) const;
  std::string name_shared(const Region& region, size_t offset) const;
  Allocation* find(const void* address);

  const Launch* launch_ = nullptr;
  RaceDetector races_;
  WarpCounter warps_;
  bool counting_ = false;
  std::string unwritten_;                            // a read of unwritten shared memory
  std::vector<Region> regions_;                      // dynamic shared memory first, then static
  std::vector<std::shared_ptr<Allocation>> recent_;  // used by this block, the latest first
};

}  // namespace vitrine::emulator
