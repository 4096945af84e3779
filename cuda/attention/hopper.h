// What attention's kernels for Hopper (TMA and wgmma) have in common: tiles of boxes in shared
// memory, which one warpgroup fills and two multiply, and the order in which blocks take tiles.
#pragma once

#include <algorithm>

#include "cuda/attention/laser_operands.h"
#include "cuda/attention/scores.h"
#include "cuda/instructions/exp2.h"
#include "cuda/instructions/pack.h"
#include "cuda/instructions/wgmma.h"

namespace vitrine::cuda {

// A block: a warpgroup that produces, and consumers, each with 64 rows of the tile that the block
// owns.
inline constexpr int kWarpgroup = 128, kConsumers = 2, kHopperThreads = (1 + kConsumers) * kWarpgroup;
inline constexpr int kOwnedRows = 64, kTileRows = kConsumers * kOwnedRows;
inline constexpr int kProductDepth = 16;  // of one instruction
/// Registers a thread: the producer needs few, and consumers share what it gives.
inline constexpr int kProducerRegisters = 24, kConsumerRegisters = 240;

/// kRows × kColumns elements of one head, as boxes: those of 64 columns follow each other, so that
/// they are lines without a gap.
template <int kRows, int kColumns>
struct BoxedTile {
  alignas(1024) char boxes[kColumns / kBox][kRows / kBox][kBoxBytes];

  /// Rows from `row` on, by one thread; outside of the head they become 0.
  __device__ void load(const TensorMap& map, int row, int h, int b, Mbarrier& full) {
#pragma unroll 1
    for (int c = 0; c < kColumns / kBox; ++c)
#pragma unroll 1
      for (int r = 0; r < kRows / kBox; ++r) load_box(boxes[c][r], map, c * kBox, row + r * kBox, h, b, full);
  }
  /// As an operand whose rows are these from `row` on, and whose k are columns from `column` on.
  __device__ uint64_t by_rows(int row, int column) const {
    return matrix_descriptor<true>(boxes[column / kBox][row / kBox] + column % kBox * 2);
  }
  /// As an operand whose k are rows from `row` on.
  __device__ uint64_t by_columns(int row) const {
    return matrix_descriptor<false, kRows / kBox * kBoxBytes>(boxes[0][row / kBox] + row % kBox * 128);
  }
};

/// A place in shared memory that is filled again and again: by the producer, once all consumers
/// have released it.
struct PipelineSlot {
  Mbarrier full, empty;

  /// `fillers` threads fill it together.
  __device__ void init(unsigned fillers = 1) {
    full.init(fillers), empty.init(kConsumers * kWarpgroup / kWarp);
  }
  __device__ void wait_empty(unsigned round) { empty.wait((round + 1) % 2); }
  /// By the producer; then it loads that many bytes.
  __device__ Mbarrier& fill(unsigned round, unsigned bytes) {
    wait_empty(round);
    full.arrive_expecting(bytes);
    return full;
  }
  __device__ void wait(unsigned round) { full.wait(round % 2); }
  /// By each warp of the consumers.
  __device__ void release() {
    __syncwarp();  // all lanes have read
    if (threadIdx.x % kWarp == 0) empty.arrive();
  }
};

/// The tiles of all heads, and which of them a block computes one after the other. Tiles of a head
/// can differ in work: under causality, what the last queries see is most. They come first, so that
/// what ends last is short; blocks take them in turn, in every other round in the opposite order,
/// so that none always has the longest. Only so many heads are under way at a time as the L2 cache
/// holds keys and values of.
struct Schedule {
  int tiles, heads, together;

  /// For `heads` of so many rows, of which a tile meets `bytes_met` bytes of the other side.
  static Schedule of(int64_t rows, int64_t heads, int64_t bytes_met) {
    constexpr int64_t kCache = int64_t{24} << 20;
    return {static_cast<int>((rows + kTileRows - 1) / kTileRows), static_cast<int>(heads),
            static_cast<int>(std::clamp<int64_t>(kCache / std::max<int64_t>(bytes_met, 1), 1, heads))};
  }
  int count() const { return tiles * heads; }

  /// Calls f(head, tile) for each of this block.
  template <class F>
  __device__ void for_tiles(F&& f) const {
    const int blocks = static_cast<int>(gridDim.x), block = static_cast<int>(blockIdx.x);
    for (int begin = 0, round = 0; begin < tiles * heads; begin += blocks, ++round) {
      const int turn = begin + (round % 2 == 0 ? block : blocks - 1 - block);
      if (turn >= tiles * heads) continue;
      const int first = turn / (together * tiles) * together, in_group = turn - first * tiles;
      const int width = heads - first < together ? heads - first : together;
      f(first + in_group % width, tiles - 1 - in_group / width);
    }
  }
};

/// The beginning of dynamic shared memory at a multiple of 1024, from which boxes count; the launch
/// asks for as much more.
inline constexpr size_t kAlignment = 1024;
template <class Shared>
__device__ Shared& aligned_shared() {
  VITRINE_DYNAMIC_SHARED(char, memory);
  return *reinterpret_cast<Shared*>(memory + (kAlignment - reinterpret_cast<uintptr_t>(memory) % kAlignment) %
                                                 kAlignment);
}

/// Of a warpgroup's sums a thread has two rows, and element e of them in the same column of each
/// (cuda/instructions/wgmma.h).
__device__ inline int owned_row(int of_thread) {
  const int thread = static_cast<int>(threadIdx.x) % kWarpgroup;
  return thread / 32 * 16 + thread % 32 / 4 + of_thread * 8;
}
__device__ inline int owned_column(int e) {
  return e / 4 * 8 + static_cast<int>(threadIdx.x) % 4 * 2 + e % 2;
}

/// Calls f(at, column) for each run `at` of 4 sums of this thread, two rows of two neighbouring
/// columns, of kSize columns of which there are `columns`.
template <int kSize, class F>
__device__ void for_owned_columns(int columns, F&& f) {
#pragma unroll
  for (int at = 0; at < kSize / 8; ++at) {
    const int column = owned_column(at * 4);
    if (column < columns) f(at, column);
  }
}

/// Sums, rounded, as the left operand of the next product.
template <class S, int kCount>
__device__ void pack_fragments(Fragment (&fragments)[kCount], const float (&x)[8 * kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i)
#pragma unroll
    for (int quarter = 0; quarter < 4; ++quarter)
      fragments[i].quarter[quarter] = pack<S>(x[8 * i + 2 * quarter], x[8 * i + 2 * quarter + 1]);
}

/// Channels that the kernels are compiled for; other heads are filled up with zeros.
inline constexpr int kHopperSizes[] = {64, 128};

template <class F>
void visit_hopper_size(const Tensor& q, const Tensor& v, F&& f) {
  std::max(q.size(3), v.size(3)) <= kHopperSizes[0] ? f(std::integral_constant<int, kHopperSizes[0]>())
                                                    : f(std::integral_constant<int, kHopperSizes[1]>());
}

}  // namespace vitrine::cuda
