// One block of a kernel: its threads are fibers of the thread that runs the block, and they switch
// at barriers and shuffles. Code that hangs or is undefined on a real GPU is an error that names
// the kernel, the block and the threads.
#pragma once

#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "cuda/emulator/fiber.h"
#include "cuda/emulator/index.h"
#include "cuda/emulator/races.h"

// For functions of the emulator that are compiled into kernels: their own accesses do not count as
// accesses of the kernel (trace.h).
#define VITRINE_UNTRACED __attribute__((no_sanitize_thread))

namespace vitrine::emulator {

/// A line of the kernel's source.
struct Place {
  const char* file;
  int line;
  bool operator==(const Place& other) const {
    return line == other.line && (file == other.file || std::strcmp(file, other.file) == 0);
  }
};

/// The registers of a multiprocessor. A block with wgmma has all of them.
struct Registers {
  std::vector<unsigned> of_thread;  // in each warpgroup
  uint64_t left = 0, times_given = 0;
};

class Trace;
struct BoxCopy;

/// Functions that kernels call are not inline: traced code (trace.h) would report their accesses
/// too.
class ThreadBlock {
 public:
  ThreadBlock();
  ~ThreadBlock();

  /// The block that runs on this thread; an error outside a kernel.
  static ThreadBlock& current();
  /// The same while code of a traced kernel runs, otherwise nullptr.
  static ThreadBlock* traced();

  /// Runs all threads of one block to their end. The object is used again for the next block.
  void run(const Launch& launch, Index3 block, const std::function<void()>& kernel);

  const Launch& launch() const;
  Index3 index() const;
  Index3 thread() const;
  unsigned lane() const;
  /// The lanes of the running warp: all bits, except in the last warp of a block if the number of
  /// threads is not a multiple of 32.
  uint32_t lanes() const;
  unsigned thread_number() const { return static_cast<unsigned>(running_); }
  void* dynamic_shared();
  /// An address of dynamic shared memory as instructions use it: the offset in a window of 256 KiB.
  /// The second function is the inverse.
  uint32_t shared_address(const void* shared) const;
  char* at_shared_address(uint32_t address) const;

  /// __syncthreads: returns when every thread of the block has called it.
  void synchronize(Place place);
  /// The same. Returns the number of threads with a true `predicate`.
  int synchronize_and_count(bool predicate, Place place);
  /// Passes `value` and returns the values of all lanes of the warp (0 for lanes outside `mask`),
  /// when all lanes in `mask` have called this. Only __syncwarp orders memory.
  const uint64_t* exchange(uint32_t mask, uint64_t value, Place place, bool orders_memory = false);
  /// The value that lane `source` passes. An error if this lane is not in the mask or not in the
  /// block.
  uint64_t shuffle(uint32_t mask, uint64_t value, unsigned source, Place place);

  /// The same as exchange() for the 128 threads of a warpgroup. Does not order memory.
  const uint64_t* exchange_in_warpgroup(uint64_t value, Place place);
  /// Returns when another thread has changed the word, for spin waits. The word must not return to
  /// its present value.
  void wait_for_change(const uint64_t& word, Place place);
  /// Lets other threads run before this thread continues. An error if all threads of the block only
  /// do this.
  void pass_turn();
  /// Tiles that are in flight to shared memory (mbarrier.h). A block must not end before they
  /// arrive.
  std::vector<BoxCopy>& box_copies() { return box_copies_; }
  /// At first the threads share the registers evenly, as with the compiler.
  Registers& registers() { return registers_; }
  /// Notes an mbarrier that the running thread initializes. The copy engine must not use it before
  /// that thread's next fence.
  void add_mbarrier(const uint64_t& state) { unfenced_.push_back({&state, running_}); }
  void fence_mbarriers();
  bool is_fenced(const uint64_t& state) const;

  /// Ends the block with an error that names the block and the kernel.
  [[noreturn]] void fail_here(const std::string& what) const;

  /// The running thread's own code begins or ends.
  void enter_kernel(bool inside);
  /// Checks and counts an access of the running thread. A wrong access ends the block with an
  /// error.
  void note_access(const void* address, size_t size, Access access, const void* pc, size_t element = 0);
  void note_matrix_products(uint64_t count);
  /// Notes a mistake of the running thread ("takes element 5 of int [4]"), which ends the block
  /// with an error. The thread must then call stop().
  void note_wrong(const std::string& what);
  /// Stops the running thread.
  void stop();

 private:
  struct Thread {
    Index3 index{};
    Fiber fiber;
    bool alive = false, in_kernel = false;
    const uint64_t* waiting_on = nullptr;  // continues when this differs from waiting_value
    uint64_t waiting_value = 0;
    Place place{"", 0};
  };
  struct Group {  // lanes of a warp that exchange values
    size_t warp;
    uint32_t mask, arrived = 0;
    uint64_t generation = 0;
    uint64_t values[2][32] = {};
    Place place{"", 0};
  };
  struct Warpgroup {
    size_t arrived = 0;
    uint64_t generation = 0;
    uint64_t values[2][128] = {};
    Place place{"", 0};
  };

  void prepare();
  void shuffle_order();
  void run_until_blocked(bool& progress);
  void wait(const uint64_t& generation, Place place);
  Group& group(uint32_t mask);
  std::string describe(size_t thread) const;
  Error error_here(const std::string& what) const;
  bool fails(const std::string& wrong);
  [[noreturn]] void fail_blocked() const;

  const Launch* launch_ = nullptr;
  Index3 index_{};
  const std::function<void()>* kernel_ = nullptr;
  std::vector<std::unique_ptr<Thread>> threads_;
  std::vector<size_t> order_;
  std::mt19937_64 random_;
  std::vector<char> shared_;
  std::deque<Group> groups_;
  std::deque<Warpgroup> warpgroups_;
  std::vector<BoxCopy> box_copies_;
  std::vector<std::pair<const uint64_t*, size_t>> unfenced_;  // mbarriers, and threads
  Registers registers_;
  std::exception_ptr error_;
  size_t running_ = 0, arrived_ = 0, alive_ = 0;
  uint64_t generation_ = 0;  // of block-wide barriers
  int votes_[2] = {};        // of this barrier, and of the one before or after it
  // Calls of pass_turn() since a thread has ended or has finished a wait
  uint64_t passes_ = 0;
  std::unique_ptr<Trace> trace_;  // from the first traced kernel on
};

// CUDA's threadIdx, blockIdx, blockDim and gridDim.
Index3 thread_index();
Index3 block_index();
Size3 block_size();
Size3 grid_size();

/// Lets the other threads of the block run: a thread that spins on memory may wait for their
/// writes.
void pass_turn();
/// Orders earlier writes before later writes, for all blocks, and lets other threads run. Kernels
/// cannot contain the fence, because g++ does not support fences in traced code.
void fence();
/// Reports an access that the compiler does not report: an atomic operation, or an emulated
/// instruction. `element` is the size in bytes of the numbers that are read; each of them must have
/// been written. 0 for a struct, which may have padding.
void note_access(const void* address, size_t size, Access access, const void* pc, size_t element = 0);
/// The same for `count` numbers of `size` bytes that one instruction moves, up to 16 bytes in all.
/// A GPU requires alignment to the whole size.
void note_vector(const void* address, size_t size, size_t count, Access access, const void* pc);
/// Reports `count` products of 16 × 16 by 16 × 8 elements on tensor cores. Called by one thread.
void note_matrix_products(uint64_t count);

/// Runs kernel() once for every thread of the grid, blocks in parallel over the cores.
void run_grid(const Launch& launch, const std::function<void()>& kernel);
/// Prints on standard error, once per process, that the kernels of a file are not traced, and how
/// to trace them. Returns false.
bool report_untraced(const char* file);

/// The order in which a block's threads run between barriers. 0 (the default) is the order of their
/// numbers; other seeds shuffle the threads at each barrier. If a result changes with the seed, the
/// kernel has a race. Also set by the environment variable VITRINE_EMULATOR_SEED.
void set_thread_order(uint64_t seed);

}  // namespace vitrine::emulator
