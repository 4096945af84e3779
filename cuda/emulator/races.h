// Races on shared memory: two threads access a byte, one of them writes, and nothing orders the two
// accesses. Accesses are ordered by __syncthreads, by __syncwarp for the lanes of its mask, and by
// atomics on one address. Shuffles and votes do not order them, because CUDA does not guarantee
// this. Each thread has a vector clock. Each word, or each byte of it, records its writer and its
// readers since the last block-wide barrier.
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

/// The recorded accesses to one region of shared memory.
class SharedHistory {
 public:
  static constexpr size_t kReaders = 8, kWord = 4;
  /// The accesses to some bytes that each took all of them.
  struct Cell {
    uint64_t phase = 0;  // of the others
    Touch write, reads[kReaders];
    bool written = false;
    uint8_t readers = 0;
  };
  /// An aligned word. `whole` has the accesses to all its bytes, until an access of the phase takes
  /// a part of the word.
  struct Word {
    uint64_t blocks[kWord] = {};  // for each byte the last block that wrote it
    uint64_t divided = 0;         // the last phase that has used `bytes`
    Cell whole;
    std::unique_ptr<Cell[]> bytes;
  };
  Word& at(size_t offset);

 private:
  static constexpr size_t kPage = 64;
  std::vector<std::unique_ptr<Word[]>> pages_;
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

  /// Notes an access to bytes. Returns an earlier one with which it races, or nullptr.
  const Touch* touch(SharedHistory& history, size_t offset, size_t size, const Touch& touch);
  /// Whether a thread of this block has written the byte.
  bool is_written(SharedHistory& history, size_t offset) const {
    return history.at(offset).blocks[offset % SharedHistory::kWord] == block_;
  }
  void write(SharedHistory& history, size_t offset, size_t size) const {
    for (size_t i = offset; i < offset + size; ++i) history.at(i).blocks[i % SharedHistory::kWord] = block_;
  }
  uint32_t clock(size_t thread) { return clocks(thread)[thread]; }

 private:
  // For each thread, the number of its steps that are ordered before the present step
  using Clocks = std::vector<uint32_t>;
  uint32_t* clocks(size_t thread);
  const Touch* touch(SharedHistory::Cell& cell, const Touch& touch, const uint32_t* ordered);
  void divide(SharedHistory::Word& word);

  size_t threads_ = 0;
  uint64_t block_ = 0, phase_ = 0;  // both only grow, so nothing needs clearing
  Clocks table_;                    // one row a thread
  std::vector<uint64_t> row_phase_;
  std::unordered_map<const void*, Clocks> through_;  // atomics' addresses
};

}  // namespace vitrine::emulator
