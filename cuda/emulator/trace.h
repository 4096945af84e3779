// What the threads of a block read and write, checked and counted. Kernels in files compiled with
// VITRINE_TRACE_OPTIONS (all of cuda/ with VITRINE_EMULATOR_TRACE=ON) tell each access: GCC's and
// clang's -fsanitize=thread puts a call before it, which is meant for ThreadSanitizer's runtime and
// is answered by callbacks.cpp instead.
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
  /// Notes an access. Returns what is wrong, or ""; so do synchronize() and finish_block(), which
  /// tell of a read of unwritten shared memory, unless a race has explained it.
  std::string access(const void* address, size_t size, size_t thread, Access access, const void* pc,
                     size_t element);

  /// Tensor cores make so many products.
  void multiply_matrices(uint64_t count) {
    if (counting_) warps_.multiply_matrices(count);
  }
  /// A thread comes to a barrier or a warp function.
  void advance(size_t thread);
  /// The threads of a barrier are all there: those of the block, or lanes of the warp that begins
  /// with thread `first`.
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
  std::string unwritten_;        // a read of shared memory that nothing had written yet
  std::vector<Region> regions_;  // dynamic shared memory first, then that of the program's parts
  std::vector<std::shared_ptr<Allocation>> recent_;  // used by this block, the last one in front
};

}  // namespace vitrine::emulator
