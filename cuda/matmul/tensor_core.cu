// Step 4, for bfloat16 and float16: tensor cores multiply, and tiles are copied to shared memory
// ahead of time.
//
// The gain: one instruction of a warp multiplies 16 × 16 by 16 × 8 matrices, 2048 products; the
// blocked step needs 64 instructions for these. Numbers stay 16 bits wide up to the product. This
// is so fast that tiles must arrive all the time: kStages tiles are in shared memory; one is
// multiplied while the next tiles are loaded.
#include "cuda/instructions/async_copy.h"
#include "cuda/instructions/mma.h"
#include "cuda/matmul/kernel.h"

namespace vitrine::cuda {
namespace {

// Tiles of kTile rows (columns) by kDepth
constexpr int kTile = 128, kDepth = 32, kStages = 3;
constexpr int kWarps = 8, kWarpRows = 64, kWarpColumns = 32;  // of z, for a warp
constexpr int kThreadsOfBlock = kWarps * 32;
constexpr int kChunk = 8;  // elements that are copied or read by load_matrices at once: 16 bytes

/// A tile of x or y in the order of memory: lines of chunks, along k or across k. load_matrices
/// reads one chunk from each of eight consecutive lines, and these chunks must be in different
/// banks. So chunks are permuted within a line, by exclusive or with the line's number. Two lines
/// along k fill the 128 bytes of all banks, so there two lines share a number.
template <class S, bool kAlongK>
struct SharedTile {
  static constexpr int kLine = (kAlongK ? kDepth : kTile) / kChunk, kLines = kAlongK ? kTile : kDepth;
  S elements[kTile * kDepth];

  __device__ S* chunk(int line, int c) {
    const int moved = kAlongK ? c ^ line / 2 % kLine : c ^ line % 8;
    return &elements[(line * kLine + moved) * kChunk];
  }

  /// The 16 × 16 elements from row (column) `first` and k on.
  __device__ Fragment fragment(int first, int k) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    // Of this lane's quarter
    const int at_row = first + lane / 8 % 2 * 8, at_k = k + lane / 16 * 8;
    if constexpr (kAlongK) {
      return load_matrices<false>(chunk(at_row + lane % 8, at_k / kChunk));
    } else {
      return load_matrices<true>(chunk(at_k + lane % 8, at_row / kChunk));
    }
  }
};

/// The source of a block's tiles of one operand.
template <class S, bool kAlongK>
struct Source {
  const S* from;
  int64_t stride;    // from line to line
  int64_t first;     // row of x (column of y)
  int64_t count, K;  // rows of x (columns of y), and depth of the matrix
  bool aligned;      // every chunk begins at a multiple of 16 bytes

  /// Copies this thread's chunks of the tile that begins at k; 0 outside the matrix.
  __device__ void load(SharedTile<S, kAlongK>& tile, AsyncCopies& copies, int64_t k) const {
    using Shared = SharedTile<S, kAlongK>;
    const int64_t line0 = kAlongK ? first : k, at0 = kAlongK ? k : first;
    const int64_t lines = kAlongK ? count : K, length = kAlongK ? K : count;
#pragma unroll 1  // unrolled, the addresses would not fit into the registers
    for (int i = 0; i < Shared::kLines * Shared::kLine / kThreadsOfBlock; ++i) {
      const int n = static_cast<int>(threadIdx.x) + i * kThreadsOfBlock;
      const int line = n / Shared::kLine, c = n % Shared::kLine;
      const int64_t at = at0 + c * kChunk;
      const int64_t left = line0 + line < lines && at < length ? length - at : 0;
      const int inside = left < kChunk ? static_cast<int>(left) : kChunk;
      const S* const elements = inside == 0 ? from : from + (line0 + line) * stride + at;
      S* const to = tile.chunk(line, c);
      if (aligned) {
        copies.copy16(to, elements, inside * static_cast<int>(sizeof(S)));
      } else {
#pragma unroll
        for (int e = 0; e < kChunk; ++e) to[e] = e < inside ? elements[e] : S(0);
      }
    }
  }
};

template <class S, bool kXAlongK, bool kYAlongK>
struct Stage {
  SharedTile<S, kXAlongK> x;
  SharedTile<S, kYAlongK> y;
};

template <class S, class SZ, bool kXAlongK, bool kYAlongK>
__global__ void __launch_bounds__(kThreadsOfBlock, 2)
    matmul_tensor_core(Product p, Tiling tiling, bool x_aligned, bool y_aligned) {
  VITRINE_DYNAMIC_SHARED(char, shared);
  auto* const stages = reinterpret_cast<Stage<S, kXAlongK, kYAlongK>*>(shared);
  const Tile tile = Tile::of(blockIdx.x, tiling);
  const Matrices<S, SZ> m(p, tile.batch);
  const int64_t row = tile.row * kTile, column = tile.column * kTile;
  const Source<S, kXAlongK> x{m.x, p.x.line(), row, p.M, p.K, x_aligned};
  const Source<S, kYAlongK> y{m.y, p.y.line(), column, p.N, p.K, y_aligned};
  const int64_t steps = (p.K + kDepth - 1) / kDepth;
  AsyncCopies copies;
  const auto load = [&](int64_t step) {
    // Empty groups at the end keep the number of groups right
    if (step < steps) {
      x.load(stages[step % kStages].x, copies, step * kDepth);
      y.load(stages[step % kStages].y, copies, step * kDepth);
    }
    copies.commit();
  };

  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int warp_row = warp / (kTile / kWarpColumns) * kWarpRows;
  const int warp_column = warp % (kTile / kWarpColumns) * kWarpColumns;
  float sums[kWarpRows / 16][kWarpColumns / 8][4] = {};
  for (int64_t step = 0; step < kStages - 1; ++step) load(step);
  for (int64_t step = 0; step < steps; ++step) {
    copies.template wait<kStages - 2>();
    // This step's tiles are there, and the tiles of the step before have been read,
    __syncthreads();
    load(step + kStages - 1);  // whose place the new ones take
    auto& stage = stages[step % kStages];
#pragma unroll
    for (int k = 0; k < kDepth; k += 16) {
      Fragment a[kWarpRows / 16], b[kWarpColumns / 16];
#pragma unroll
      for (int i = 0; i < kWarpRows / 16; ++i) a[i] = stage.x.fragment(warp_row + 16 * i, k);
#pragma unroll
      for (int j = 0; j < kWarpColumns / 16; ++j) b[j] = stage.y.fragment(warp_column + 16 * j, k);
#pragma unroll
      for (int i = 0; i < kWarpRows / 16; ++i)
#pragma unroll
        for (int j = 0; j < kWarpColumns / 8; ++j)
          multiply_accumulate<S>(sums[i][j], a[i], b[j / 2].quarter[j % 2], b[j / 2].quarter[j % 2 + 2]);
    }
  }
#pragma unroll
  for (int i = 0; i < kWarpRows / 16; ++i)
#pragma unroll
    for (int j = 0; j < kWarpColumns / 8; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int64_t at_row = row + warp_row + 16 * i + lane / 4 + e / 2 * 8;
        const int64_t at_column = column + warp_column + 8 * j + lane % 4 * 2 + e % 2;
        if (at_row < p.M && at_column < p.N) finish<S>(m.z, p, at_row, at_column, sums[i][j][e]);
      }
}

template <class S, class SZ, bool kXAlongK, bool kYAlongK>
void launch(const Product& p) {
  const Tiling tiling(p, kTile, kTile);
  VITRINE_LAUNCH((matmul_tensor_core<S, SZ, kXAlongK, kYAlongK>), tiling.blocks(p), kThreadsOfBlock,
                 kStages * sizeof(Stage<S, kXAlongK, kYAlongK>), p, tiling,
                 is_aligned(p.x, p.x_data, sizeof(S)), is_aligned(p.y, p.y_data, sizeof(S)));
}

}  // namespace

bool tensor_core_supports(const Product& p) {
  return is_low_precision(p.dtype) && compute_capability() >= 80;
}

void tensor_core_matmul(const Product& p) {
  visit_layouts(p, [&]<class S, class SZ>(Type<S>, Type<SZ>, auto x_along_k, auto y_along_k) {
    launch<S, SZ, x_along_k, y_along_k>(p);
  });
}

}  // namespace vitrine::cuda
