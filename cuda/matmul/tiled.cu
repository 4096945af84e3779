// Step 2: a block copies tiles of x and y into shared memory, and its threads read them there.
//
// The gain: a block loads each element from global memory once, not in each of kTile threads, so
// there are kTile times fewer loads. Neighbouring threads load neighbouring elements for both
// layouts of an operand: the tile is read in memory order, and transposed in shared memory.
#include "cuda/matmul/kernel.h"

namespace vitrine::cuda {
namespace {

constexpr unsigned kTile = 16;

/// Element (threadIdx.y, threadIdx.x) of a tile, or the transposed element if neighbours are in a
/// column. There is one column of padding; without it the elements of a column would be in two
/// banks.
template <class T, class S>
__device__ void load(T (&tile)[kTile][kTile + 1], const S* from, const Operand& o, int64_t row,
                     int64_t column, int64_t rows, int64_t columns) {
  const unsigned i = o.by_rows() ? threadIdx.y : threadIdx.x, j = o.by_rows() ? threadIdx.x : threadIdx.y;
  row += i, column += j;
  const bool inside = row < rows && column < columns;
  tile[i][j] = inside ? static_cast<T>(from[row * o.row + column * o.column]) : T(0);
}

template <class S, class SZ>
__global__ void matmul_tiled(Product p, Tiling tiling) {
  using T = AccumulatorOf<S>;
  __shared__ T x[kTile][kTile + 1], y[kTile][kTile + 1];
  const Tile tile = Tile::of(blockIdx.x, tiling);
  const Matrices<S, SZ> m(p, tile.batch);
  const int64_t row = tile.row * kTile, column = tile.column * kTile;
  const unsigned ty = threadIdx.y, tx = threadIdx.x;
  T sum = 0;
  for (int64_t k = 0; k < p.K; k += kTile) {
    load(x, m.x, p.x, row, k, p.M, p.K);
    load(y, m.y, p.y, k, column, p.K, p.N);
    __syncthreads();  // the tiles are complete
    for (unsigned i = 0; i < kTile; ++i) sum = multiply_add(x[ty][i], y[i][tx], sum);
    __syncthreads();  // and have been read, before the next ones are written
  }
  const int64_t i = row + ty, j = column + tx;
  if (i < p.M && j < p.N) finish<S>(m.z, p, i, j, sum);
}

}  // namespace

bool tiled_supports(const Product&) { return true; }

void tiled_matmul(const Product& p) {
  visit_types(p, [&]<class S, class SZ>(Type<S>, Type<SZ>) {
    const Tiling tiling(p, kTile, kTile);
    VITRINE_LAUNCH((matmul_tiled<S, SZ>), tiling.blocks(p), dim3(kTile, kTile), 0, p, tiling);
  });
}

}  // namespace vitrine::cuda
