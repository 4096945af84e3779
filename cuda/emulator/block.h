// One block of a kernel: its threads are fibers of the thread that runs the block, and barriers and
// shuffles are where they change. What a real GPU leaves to chance or to a hang is an error that
// names kernel, block and threads.
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

// Functions of the emulator that are compiled into kernels, and whose own accesses are not the
// kernel's (trace.h).
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

/// Those of a multiprocessor, which a block with wgmma has to itself.
struct Registers {
  std::vector<unsigned> of_thread;  // in each warpgroup
  uint64_t left = 0, times_given = 0;
};

class Trace;
struct BoxCopy;

/// What kernels call of it is not inline: traced code (trace.h) would tell its accesses too.
class ThreadBlock {
 public:
  ThreadBlock();
  ~ThreadBlock();

  /// The block that runs on this thread; an error outside a kernel.
  static ThreadBlock& current();
  /// The same while code of a traced kernel runs, else nullptr.
  static ThreadBlock* traced();

  /// Runs all threads of one block to their end. Reused from block to block.
  void run(const Launch& launch, Index3 block, const std::function<void()>& kernel);

  const Launch& launch() const;
  Index3 index() const;
  Index3 thread() const;
  unsigned lane() const;
  /// Those of the running warp: all bits, but in the last one of a block that is no multiple of 32
  /// threads.
  uint32_t lanes() const;
  unsigned thread_number() const { return static_cast<unsigned>(running_); }
  void* dynamic_shared();
  /// An address of dynamic shared memory as instructions know it, from the begin of a window of 256
  /// KiB; and back.
  uint32_t shared_address(const void* shared) const;
  char* at_shared_address(uint32_t address) const;

  /// __syncthreads: returns once every thread of the block is here.
  void synchronize(Place place);
  /// The same; how many of them came with `predicate`.
  int synchronize_and_count(bool predicate, Place place);
  /// Gives `value` and returns those of all lanes of the warp (0 for lanes outside `mask`), once
  /// all in `mask` are here. Only __syncwarp orders memory.
  const uint64_t* exchange(uint32_t mask, uint64_t value, Place place, bool orders_memory = false);
  /// The value that lane `source` gives. A lane that is not in the mask, or not in the block, gives
  /// none.
  uint64_t shuffle(uint32_t mask, uint64_t value, unsigned source, Place place);

  /// The same for the 128 threads of a warpgroup, which orders no memory.
  const uint64_t* exchange_in_warpgroup(uint64_t value, Place place);
  /// Returns once another thread has changed the word, which must not come back to what it is: how
  /// spin waits yield.
  void wait_for_change(const uint64_t& word, Place place);
  /// Lets other threads run before this one goes on. An error once the block does nothing else.
  void pass_turn();
  /// Tiles on their way to shared memory (mbarrier.h). A block must not end before they are there.
  std::vector<BoxCopy>& box_copies() { return box_copies_; }
  /// At first its threads share them evenly, as the compiler does.
  Registers& registers() { return registers_; }
  /// A barrier that the running thread initializes is unknown to the copy engine until that
  /// thread's next fence.
  void add_mbarrier(const uint64_t& state) { unfenced_.push_back({&state, running_}); }
  void fence_mbarriers();
  bool is_fenced(const uint64_t& state) const;

  /// Ends the block with an error that names it and its kernel.
  [[noreturn]] void fail_here(const std::string& what) const;

  /// The running thread's own code begins or ends.
  void enter_kernel(bool inside);
  /// An access of the running thread; one that is wrong ends the block with an error.
  void note_access(const void* address, size_t size, Access access, const void* pc, size_t element = 0);
  void note_matrix_products(uint64_t count);
  /// What the running thread does wrong ("takes element 5 of int [4]"), which must then stop(): it
  /// ends the block with an error.
  void note_wrong(const std::string& what);
  /// The running thread does not go on.
  void stop();

 private:
  struct Thread {
    Index3 index{};
    Fiber fiber;
    bool alive = false, in_kernel = false;
    const uint64_t* waiting_on = nullptr;  // goes on when this has another value than
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
  std::vector<std::pair<const uint64_t*, size_t>> unfenced_;  // mbarriers, and who initialized them
  Registers registers_;
  std::exception_ptr error_;
  size_t running_ = 0, arrived_ = 0, alive_ = 0;
  uint64_t generation_ = 0;  // of block-wide barriers
  int votes_[2] = {};        // of this barrier, and of the one before or after it
  // Turns passed on since a thread has ended or got what it waited for
  uint64_t passes_ = 0;
  std::unique_ptr<Trace> trace_;  // from the first traced kernel on
};

// CUDA's threadIdx, blockIdx, blockDim and gridDim.
Index3 thread_index();
Index3 block_index();
Size3 block_size();
Size3 grid_size();

/// Lets the other threads of the block run, where they can: what a thread that spins on memory
/// waits for may be theirs to write.
void pass_turn();
/// Orders the writes before it before those after it, for all blocks, and passes the turn. Kernels
/// do not do it themselves: g++ knows no fences where it compiles for the trace.
void fence();
/// Tells an access that the compiler does not: an atomic operation, or that of an instruction's
/// twin. `element` is the size in bytes of the numbers that are read, each of which must have been
/// written; 0 where it may be a struct with padding.
void note_access(const void* address, size_t size, Access access, const void* pc, size_t element = 0);
/// The same for `count` numbers of `size` bytes that one instruction moves, up to 16 bytes: a GPU
/// needs them aligned to that size.
void note_vector(const void* address, size_t size, size_t count, Access access, const void* pc);
/// Tells that tensor cores multiply so many times 16 × 16 by 16 × 8 elements; called by one thread.
void note_matrix_products(uint64_t count);

/// Runs kernel() once for every thread of the grid, blocks in parallel over the cores.
void run_grid(const Launch& launch, const std::function<void()>& kernel);
/// Says on standard error, once per process, that the kernels of a file are not traced, and how
/// they would be. Returns false.
bool report_untraced(const char* file);

/// The order of a block's threads from one barrier to the next: 0 (the default) counts up, other
/// seeds shuffle it anew each time. A kernel whose result changes with it has a race. Also set by
/// the environment variable VITRINE_EMULATOR_SEED.
void set_thread_order(uint64_t seed);

}  // namespace vitrine::emulator
