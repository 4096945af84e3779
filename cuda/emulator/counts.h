// Counts of a kernel's memory accesses, as on a GPU: the accesses of a warp's lanes at one
// instruction count as one, global memory is moved in transactions of 32 bytes, and shared memory
// has 32 banks of 4 bytes, which serve one word at a time each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "cuda/emulator/races.h"

namespace vitrine::emulator {

/// The counts of all launches of one kernel.
struct Counts {
  uint64_t launches = 0;
  bool traced = true;  // false: compiled without tracing, so only launches are known

  uint64_t loads = 0, stores = 0, atomics = 0;        // of global memory, by threads
  uint64_t bytes = 0;                                 // of these accesses
  uint64_t accesses = 0;                              // of global memory, by warps
  uint64_t transactions = 0, least_transactions = 0;  // made, and the minimum for the bytes

  uint64_t shared_loads = 0, shared_stores = 0, shared_atomics = 0;
  uint64_t shared_accesses = 0;  // by warps
  uint64_t bank_conflicts = 0;   // additional rounds because two words are in one bank

  // Products of 16 × 16 by 16 × 8 elements on tensor cores; one wgmma is many of them
  uint64_t matrix_products = 0;

  Counts& operator+=(const Counts& other);
};

/// Clears the counts, and starts (or stops) counting. VITRINE_EMULATOR_COUNTS=1 in the environment
/// counts from the start, and prints the table at the end of the program.
void count_kernels(bool on);
bool counts_kernels();
void add_counts(const std::string& kernel, const Counts& counts);
/// By kernel.
std::map<std::string, Counts> kernel_counts();
std::string to_table(const std::map<std::string, Counts>& kernels);

/// Counts one block. Lanes run one after the other, so accesses are first collected. The n-th
/// access of each lane at an instruction, since the lane's last barrier or warp function, belong
/// together.
class WarpCounter {
 public:
  void start_block(size_t threads);
  void access(size_t thread, const void* pc, const void* address, size_t size, Access access, bool shared);
  /// The thread has reached a barrier or a warp function.
  void advance(size_t thread);
  void end(size_t thread);
  void multiply_matrices(uint64_t count) { counts_.matrix_products += count; }
  const Counts& counts() const { return counts_; }

 private:
  struct Request {
    uint64_t lane_addresses[32];
    uint32_t lanes = 0;
    uint8_t size = 0;
    bool shared = false;
  };
  using Phase = std::unordered_map<const void*, std::vector<Request>>;  // by instruction
  struct Lane {
    uint64_t phase = 0;
    bool alive = true;
    std::unordered_map<const void*, size_t> made;  // accesses by instruction
  };
  struct Warp {
    uint64_t first_phase = 0;
    std::deque<Phase> phases;
  };
  void finish_phases(size_t warp);
  void finish(const Request& request);

  std::vector<Lane> lanes_;
  std::vector<Warp> warps_;
  Counts counts_;
};

}  // namespace vitrine::emulator
