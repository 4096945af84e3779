// One block of a kernel: its threads are fibers of the thread that runs the block, and barriers and shuffles are where they
// change. What a real GPU leaves to chance or to a hang is an error that names kernel, block and threads.
#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cuda/emulator/fiber.h"

namespace vitrine::emulator {

struct Index3 {
  unsigned x = 0, y = 0, z = 0;
};
struct Size3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr Size3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
  uint64_t count() const { return uint64_t{x} * y * z; }
};

struct Launch {
  std::string kernel;
  Size3 grid, block;
  size_t shared_bytes = 0;
};

/// A line of the kernel's source.
struct Place {
  const char* file;
  int line;
  bool operator==(const Place& other) const { return line == other.line && std::string(file) == other.file; }
};

class Block {
 public:
  /// The block that runs on this thread; an error outside a kernel.
  static Block& current();

  /// Runs all threads of one block to their end. Reused from block to block.
  void run(const Launch& launch, Index3 block, const std::function<void()>& kernel);

  const Launch& launch() const { return *launch_; }
  Index3 index() const { return index_; }
  Index3 thread() const { return threads_[running_]->index; }
  unsigned lane() const { return static_cast<unsigned>(running_ % 32); }
  void* dynamic_shared() { return shared_.data(); }

  /// __syncthreads: returns once every thread of the block is here.
  void synchronize(Place place);
  /// Gives `value` and returns those of all lanes of the warp (0 for lanes outside `mask`), once all in `mask` are here.
  const uint64_t* exchange(uint32_t mask, uint64_t value, Place place);

 private:
  struct Thread {
    Index3 index;
    Fiber fiber;
    bool alive = false;
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

  void prepare();
  void run_until_blocked(bool& progress);
  void wait(const uint64_t& generation, Place place);
  Group& group(uint32_t mask);
  std::string describe(size_t thread) const;
  [[noreturn]] void fail_here(const std::string& what) const;
  [[noreturn]] void fail_blocked() const;

  const Launch* launch_ = nullptr;
  Index3 index_;
  const std::function<void()>* kernel_ = nullptr;
  std::vector<std::unique_ptr<Thread>> threads_;
  std::vector<size_t> order_;
  std::vector<char> shared_;
  std::deque<Group> groups_;
  std::exception_ptr error_;
  size_t running_ = 0, arrived_ = 0, alive_ = 0;
  uint64_t generation_ = 0;  // of block-wide barriers
};

/// Runs kernel() once for every thread of the grid, blocks in parallel over the cores.
void run_grid(const Launch& launch, const std::function<void()>& kernel);

/// The order of a block's threads between barriers: 0 (the default) counts up, other seeds shuffle. A kernel whose result
/// changes with it has a race. Also set by the environment variable VITRINE_EMULATOR_SEED.
void set_thread_order(uint64_t seed);

}  // namespace vitrine::emulator
