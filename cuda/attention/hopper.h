// Code that attention's kernels for Hopper (TMA and wgmma) share: tiles of boxes in shared memory,
// which one warpgroup loads and two warpgroups multiply, and the order in which blocks take tiles.
#pragma once

#include <algorithm>

#include "cuda/attention/laser_operands.h"
#include "cuda/attention/scores.h"
#include "cuda/instructions/exp2.h"
#include "cuda/instructions/pack.h"
#include "cuda/instructions/wgmma.h"

namespace vitrine::cuda {

// A block has one producer warpgroup, and consumer warpgroups with 64 rows each of the block's
// tile.
inline constexpr int kWarpgroup = 128, kConsumers = 2, kHopperThreads = (1 + kConsumers) * kWarpgroup;
inline constexpr int kOwnedRows = 64, kTileRows = kConsumers * kOwnedRows;
inline constexpr int kProductDepth = 16;  // of one instruction
/// Registers per thread: the producer needs few, and the consumers share the registers that it
/// releases.
inline constexpr int kProducerRegisters = 24, kConsumerRegisters = 240;

/// kRows × kColumns elements of one head, as boxes. The boxes of the same 64 columns follow each
/// other, so that their lines are contiguous.
template <int kRows, int kColumns>
struct BoxedTile {
  alignas(1024) char boxes[kColumns / kBox][kRows / kBox][kBoxBytes];

  /// Loads rows from `row` on. Called by one thread. Rows outside the head become 0.
  __device__ void load(const TensorMap& map, int row, int h, int b, Mbarrier& full) {
#pragma unroll 1
    for (int c = 0; c < kColumns / kBox; ++c)
#pragma unroll 1
      for (int r = 0; r < kRows / kBox; ++r) load_box(boxes[c][r], map, c * kBox, row + r * kBox, h, b, full);
  }
  /// The descriptor of an operand with rows from `row` on, where k runs along the columns from
  /// `column` on.
  __device__ uint64_t by_rows(int row, int column) const {
    return matrix_descriptor<true>(boxes[column / kBox][row / kBox] + column % kBox * 2);
  }
  /// The descriptor of an operand where k runs along the rows from `row` on.
  __device__ uint64_t by_columns(int row) const {
    return matrix_descriptor<false, kRows / kBox * kBoxBytes>(boxes[0][row / kBox] + row % kBox * 128);
  }
};

/// A slot in shared memory that is filled repeatedly. The producer fills the slot when all
/// consumers have released it.
struct PipelineSlot {
  Mbarrier full, empty;

  /// `fillers` threads fill the slot together.
  __device__ void init(unsigned fillers = 1) {
    full.init(fillers), empty.init(kConsumers * kWarpgroup / kWarp);
  }
  __device__ void wait_empty(unsigned round) { empty.wait((round + 1) % 2); }
  /// Called by the producer, which then loads `bytes` bytes.
  __device__ Mbarrier& fill(unsigned round, unsigned bytes) {
    wait_empty(round);
    full.arrive_expecting(bytes);
    return full;
  }
  __device__ void wait(unsigned round) { full.wait(round % 2); }
  /// Called by each warp of the consumers.
  __device__ void release() {
    __syncwarp();  // all lanes have read
    if (threadIdx.x % kWarp == 0) empty.arrive();
  }
};

/// The tiles of all heads, and the tiles that each block computes in order. Tiles of a head can
/// differ in work: with causality, the last queries see the most keys. These tiles come first, so
/// that the last tiles to finish are short. Blocks take tiles in turn, and in the opposite order in
/// every other round, so that no block always gets the longest tiles. The number of heads in
/// progress is limited, so that their keys and values fit into the L2 cache.
struct Schedule {
  int tiles, heads, together;

  /// For `heads` heads of `rows` rows; a tile reads up to `bytes_met` bytes of the other side.
  static Schedule of(int64_t rows, int64_t heads, int64_t bytes_met) {
    constexpr int64_t kCache = int64_t{24} << 20;
    return {static_cast<int>((rows + kTileRows - 1) / kTileRows), static_cast<int>(heads),
            static_cast<int>(std::clamp<int64_t>(kCache / std::max<int64_t>(bytes_met, 1), 1, heads))};
  }
  int count() const { return tiles * heads; }

  /// Calls f(head, tile) for each tile of this block.
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

/// Boxes must begin at multiples of 1024 bytes in dynamic shared memory; the launch requests this
/// many additional bytes.
inline constexpr size_t kAlignment = 1024;
template <class Shared>
__device__ Shared& aligned_shared() {
  VITRINE_DYNAMIC_SHARED(char, memory);
  return *reinterpret_cast<Shared*>(memory + (kAlignment - reinterpret_cast<uintptr_t>(memory) % kAlignment) %
                                                 kAlignment);
}

/// A thread holds two rows of a warpgroup's sums, with the same columns in both rows
/// (cuda/instructions/wgmma.h).
__device__ inline int owned_row(int of_thread) {
  const int thread = static_cast<int>(threadIdx.x) % kWarpgroup;
  return thread / 32 * 16 + thread % 32 / 4 + of_thread * 8;
}
__device__ inline int owned_column(int e) {
  return e / 4 * 8 + static_cast<int>(threadIdx.x) % 4 * 2 + e % 2;
}

/// Calls f(at, column) for each 4 sums of this thread from index `at` on: two rows and two
/// neighbouring columns. Of kSize columns, only `columns` exist.
template <int kSize, class F>
__device__ void for_owned_columns(int columns, F&& f) {
#pragma unroll
  for (int at = 0; at < kSize / 8; ++at) {
    const int column = owned_column(at * 4);
    if (column < columns) f(at, column);
  }
}

/// Products in row `of` of this thread become −∞ where the column is outside [first, last), or
/// is_allowed(column) is false. Only a mask asks for each column.
template <int kCount, class F>
__device__ void hide_columns(float (&x)[kCount], int of, int first, int last, bool masked, F&& is_allowed) {
  const auto width = static_cast<unsigned>(last > first ? last - first : 0);
#pragma unroll
  for (int e = 0; e < kCount; ++e)
    if (e / 2 % 2 == of && static_cast<unsigned>(owned_column(e) - first) >= width) x[e] = -INFINITY;
  if (!masked) return;
#pragma unroll
  for (int e = 0; e < kCount; ++e)
    if (e / 2 % 2 == of && x[e] != -INFINITY && !is_allowed(owned_column(e))) x[e] = -INFINITY;
}

/// Rounded sums as the left operand of the next product.
template <class S, int kCount>
__device__ void pack_fragments(Fragment (&fragments)[kCount], const float (&x)[8 * kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i)
#pragma unroll
    for (int quarter = 0; quarter < 4; ++quarter)
      fragments[i].quarter[quarter] = pack<S>(x[8 * i + 2 * quarter], x[8 * i + 2 * quarter + 1]);
}

/// Numbers of channels that the kernels are compiled for; other heads are padded with zeros.
inline constexpr int kHopperSizes[] = {64, 128};

template <class F>
void visit_hopper_size(const Tensor& q, const Tensor& v, F&& f) {
  std::max(q.size(3), v.size(3)) <= kHopperSizes[0] ? f(std::integral_constant<int, kHopperSizes[0]>())
                                                    : f(std::integral_constant<int, kHopperSizes[1]>());
}

}  // namespace vitrine::cuda
