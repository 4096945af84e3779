// Step 3: a thread computes kEach × kEach elements of z in registers.
//
// The gain: 2·kEach numbers from shared memory give kEach² products. The tiled step reads shared
// memory twice for each multiplication, which limits its speed. This step reads it once for four
// multiplications (two in float64, whose sums need twice the registers). The larger tile, 128 ×
// 128, also divides the loads from global memory by 8. The elements of the next tiles are loaded
// into registers while the present tile is multiplied, so no thread waits for global memory.
#include "cuda/matmul/kernel.h"

namespace vitrine::cuda {
namespace {

constexpr int kSide = 16;  // threads of a block: kSide × kSide
constexpr int kThreadsOfBlock = kSide * kSide;

template <class S>
struct Blocking {
  using T = AccumulatorOf<S>;
  static constexpr int kEach = sizeof(T) == 4 ? 8 : 4;  // rows and columns of z for a thread
  static constexpr int kWide = kSide * kEach;           // and for a block
  // a row of a tile is one transaction of 32 bytes
  static constexpr int kDepth = 32 / sizeof(S);
  // Elements of a tile for a thread
  static constexpr int kLoads = kWide * kDepth / kThreadsOfBlock;
  // The first axis of a tile is k. With four numbers of padding, writes along k are in different
  // banks.
  struct alignas(16) Shared {
    T x[kDepth][kWide + 4], y[kDepth][kWide + 4];
  };
};

/// A thread's part of the tiles of x, or of y: `lines` are rows of x or columns of y. Neighbouring
/// threads take neighbouring elements in memory, which are neighbours along k or along the lines.
template <class S>
class Part {
 public:
  using B = Blocking<S>;

  __device__ Part(const S* matrix, int64_t line_stride, int64_t k_stride, int64_t lines, int K, int64_t first)
      : lines_(static_cast<int>(lines - first < B::kWide ? lines - first : B::kWide)),
        K_(K),
        along_k_(k_stride == 1),
        line_(static_cast<int>(threadIdx.x) / (along_k_ ? B::kDepth : 1) % B::kWide),
        depth_(static_cast<int>(threadIdx.x) / (along_k_ ? 1 : B::kWide) % B::kDepth),
        step_(along_k_ ? kThreadsOfBlock / B::kDepth * line_stride : kThreadsOfBlock / B::kWide * k_stride),
        advance_(B::kDepth * k_stride),
        from_(matrix + (first + line_) * line_stride + depth_ * k_stride) {}

  /// Loads elements of the next tile, which begins at k; 0 outside the matrix.
  __device__ void load(int k) {
#pragma unroll
    for (int i = 0; i < B::kLoads; ++i) {
      const bool inside = line(i) < lines_ && k + depth(i) < K_;
      values_[i] = inside ? from_[i * step_] : S(0);
    }
    from_ += advance_;
  }

  __device__ void store(typename B::T (&tile)[B::kDepth][B::kWide + 4]) const {
#pragma unroll
    for (int i = 0; i < B::kLoads; ++i) tile[depth(i)][line(i)] = static_cast<typename B::T>(values_[i]);
  }

 private:
  // The position of element i of this thread in the tile.
  __device__ int line(int i) const { return line_ + (along_k_ ? i * (kThreadsOfBlock / B::kDepth) : 0); }
  __device__ int depth(int i) const { return depth_ + (along_k_ ? 0 : i * (kThreadsOfBlock / B::kWide)); }

  int lines_, K_;
  bool along_k_;
  int line_, depth_;  // of element 0
  int64_t step_;      // from an element to the next in memory
  int64_t advance_;   // from a tile to the next
  const S* from_;
  S values_[B::kLoads];
};

/// The i-th row (column) of a thread: two runs of neighbours, so that the warp's reads of 16 bytes
/// use all banks equally.
template <int kEach>
__device__ int own(int position, int i) {
  constexpr int kRun = kEach / 2;
  return i / kRun * kSide * kRun + position * kRun + i % kRun;
}

template <class S, class SZ>
__global__ void __launch_bounds__(kThreadsOfBlock, 2) matmul_blocked(Product p, Tiling tiling) {
  using B = Blocking<S>;
  using T = typename B::T;
  constexpr int kEach = B::kEach;
  __shared__ typename B::Shared tiles;
  const Tile tile = Tile::of(blockIdx.x, tiling);
  const Matrices<S, SZ> m(p, tile.batch);
  const int64_t row = tile.row * B::kWide, column = tile.column * B::kWide;
  const int ty = static_cast<int>(threadIdx.x) / kSide, tx = static_cast<int>(threadIdx.x) % kSide;

  const int K = static_cast<int>(p.K);
  Part<S> x(m.x, p.x.row, p.x.column, p.M, K, row), y(m.y, p.y.column, p.y.row, p.N, K, column);
  T sums[kEach][kEach] = {};
  x.load(0), y.load(0);
  for (int k = 0; k < K; k += B::kDepth) {
    x.store(tiles.x), y.store(tiles.y);
    __syncthreads();  // the tiles are complete
    if (k + B::kDepth < K) x.load(k + B::kDepth), y.load(k + B::kDepth);
#pragma unroll 2  // fully unrolled, the values would not fit into the registers
    for (int d = 0; d < B::kDepth; ++d) {
      T a[kEach], b[kEach];
#pragma unroll
      for (int i = 0; i < kEach; ++i)
        a[i] = tiles.x[d][own<kEach>(ty, i)], b[i] = tiles.y[d][own<kEach>(tx, i)];
#pragma unroll
      for (int i = 0; i < kEach; ++i)
#pragma unroll
        for (int j = 0; j < kEach; ++j) sums[i][j] = multiply_add(a[i], b[j], sums[i][j]);
    }
    __syncthreads();  // and have been read
  }
#pragma unroll
  for (int i = 0; i < kEach; ++i)
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const int64_t at_row = row + own<kEach>(ty, i), at_column = column + own<kEach>(tx, j);
      if (at_row < p.M && at_column < p.N) finish<S>(m.z, p, at_row, at_column, sums[i][j]);
    }
}

}  // namespace

bool blocked_supports(const Product& p) { return is_floating(p.dtype) && p.K < (1 << 30); }

void blocked_matmul(const Product& p) {
  visit_types(p, [&]<class S, class SZ>(Type<S>, Type<SZ>) {
    if constexpr (!std::is_integral_v<S>) {
      const Tiling tiling(p, Blocking<S>::kWide, Blocking<S>::kWide);
      VITRINE_LAUNCH((matmul_blocked<S, SZ>), tiling.blocks(p), kThreadsOfBlock, 0, p, tiling);
    }
  });
}

}  // namespace vitrine::cuda
