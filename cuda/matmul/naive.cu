// Step 1, as in a textbook: one thread per element of z reads a row of x and a column of y.
//
// Every element of x is read N times, and every element of y M times: 2·M·N·K loads for M·N·K
// multiplications. Caches help, but loads limit the speed, not multiplications.
#include "cuda/matmul/kernel.h"

namespace vitrine::cuda {
namespace {

constexpr unsigned kTile = 16;

template <class S, class SZ>
__global__ void matmul_naive(Product p, Tiling tiling) {
  const Tile tile = Tile::of(blockIdx.x, tiling);
  const int64_t i = tile.row * kTile + threadIdx.y, j = tile.column * kTile + threadIdx.x;
  if (i >= p.M || j >= p.N) return;
  const Matrices<S, SZ> m(p, tile.batch);
  using T = AccumulatorOf<S>;
  T sum = 0;
  for (int64_t k = 0; k < p.K; ++k)
    sum = multiply_add(static_cast<T>(m.x[i * p.x.row + k * p.x.column]),
                       static_cast<T>(m.y[k * p.y.row + j * p.y.column]), sum);
  finish<S>(m.z, p, i, j, sum);
}

}  // namespace

bool naive_supports(const Product&) { return true; }

void naive_matmul(const Product& p) {
  visit_types(p, [&]<class S, class SZ>(Type<S>, Type<SZ>) {
    const Tiling tiling(p, kTile, kTile);
    VITRINE_LAUNCH((matmul_naive<S, SZ>), tiling.blocks(p), dim3(kTile, kTile), 0, p, tiling);
  });
}

}  // namespace vitrine::cuda
