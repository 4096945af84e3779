// Races on shared memory: two threads access a byte, one of them writes, and nothing orders the two
// accesses. Accesses are ordered by __syncthreads, by __syncwarp for the lanes of its mask, and by
// atomics on one address. Shuffles and votes do not order them, because CUDA does not guarantee
// this. Each thread has a vector clock. Each byte records its writer and its readers since the last
// block-wide barrier.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

namespace vitrine::emulator {

enum class Access : uint8_t { read, write, atomic_read, atomic_write };

inline bool is_write(Access a) { return a == Access::write || a == Access::atomic_write; }
inline bool is_atomic(Access a) { return a == Access::atomic_read || a == Access::atomic_write; }

/// One thread's access.
struct Touch {
  const void* pc = nullptr;
  uint32_t clock = 0;
  uint16_t thread = 0;
  Access access = Access::read;
};

/// The recorded accesses to the bytes of one region of shared memory.
class SharedHistory {
 public:
  static constexpr size_t kReaders = 8;
  struct Byte {
    uint64_t block = 0;  // the last one that wrote it
    uint64_t phase = 0;  // of `write` and `reads`
    Touch write, reads[kReaders];
    bool written = false;
    uint8_t readers = 0;
  };
  Byte& at(size_t offset);

 private:
  static constexpr size_t kPage = 256;
  std::vector<std::unique_ptr<Byte[]>> pages_;
};

class RaceDetector {
 public:
  void start_block(size_t threads);
  /// Orders all earlier accesses before all later accesses.
  void synchronize();
  /// The same for the lanes in `mask` of the warp that begins with thread `first`.
  void synchronize(size_t first, uint32_t mask);
  /// An atomic operation on `address` follows those of other threads.
  void synchronize_through(const void* address, size_t thread);

  /// Notes an access to one byte. Returns an earlier one with which it races, or nullptr.
  const Touch* touch(SharedHistory::Byte& byte, Touch touch);
  /// Whether a thread of this block has written the byte.
  bool is_written(const SharedHistory::Byte& byte) const { return byte.block == block_; }
  void write(SharedHistory::Byte& byte) const { byte.block = block_; }
  uint32_t clock(size_t thread) { return clocks(thread)[thread]; }

 private:
  // For each thread, the number of its steps that are ordered before the present step
  using Clocks = std::vector<uint32_t>;
  uint32_t* clocks(size_t thread);
  bool is_before(const Touch& earlier, size_t thread) {
    return clocks(thread)[earlier.thread] >= earlier.clock;
  }
  void remember_reader(SharedHistory::Byte& byte, const Touch& touch);

  size_t threads_ = 0;
  uint64_t block_ = 0, phase_ = 0;  // both only grow, so nothing needs clearing
  Clocks table_;                    // one row a thread
  std::vector<uint64_t> row_phase_;
  std::unordered_map<const void*, Clocks> through_;  // atomics' addresses
};

}  // namespace vitrine::emulator
