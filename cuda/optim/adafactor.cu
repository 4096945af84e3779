// Adafactor (formulas: optim/kernels_adafactor.h), all parameters of a group in five launches, one
// block per tile: sums of squares of the tile's rows and columns; the moments of whole rows and
// columns; the squares of x and u; their sums for each tensor; the update. Every sum has a fixed
// order, which depends neither on the number of blocks nor on their order.
#include "cuda/pieces.h"
#include "optim/kernels.h"
#include "optim/kernels_adafactor.h"

namespace vitrine::optim::cuda {

using namespace vitrine::cuda;

namespace {

constexpr int64_t kTile = 128;  // rows and columns: a warp reads 512 bytes of a row
using Matrices = Tiling<kTile, kTile>;

/// x, partners, g, rows, columns, v and m.
using Table = Pieces<7, Matrices>;

/// The tile of this block. The state of its tensor: rows and columns, or v.
template <class T>
struct Here {
  int tensor;
  Matrices t;
  int64_t n;  ///< the tile among all tensors'
  Tile tile;
  T* rows;
  T* columns;
  T* v;

  __device__ explicit Here(const Table& table)
      : tensor(table.tensor()),
        t(table.number[tensor]),
        n(t.first_tile + blockIdx.x - table.first[tensor]),
        tile(t.tile(n - t.first_tile)),
        rows(static_cast<T*>(table.data[3][tensor])),
        columns(static_cast<T*>(table.data[4][tensor])),
        v(static_cast<T*>(table.data[5][tensor])) {
    if (rows != nullptr) rows += tile.matrix * t.rows, columns += tile.matrix * t.columns;
  }

  /// Calls row(r, at) for the tile's rows that this warp has: row r of the matrix, whose part
  /// begins at element `at`.
  template <class F>
  __device__ void for_each_row(const F& row) const {
    for (int64_t r = tile.row + threadIdx.x / kWarp; r < tile.row + tile.rows; r += blockDim.x / kWarp)
      row(r, (tile.matrix * t.rows + r) * t.columns + tile.column);
  }
  /// Calls column(k, c) for the columns c of the tile that this lane has, 0 ≤ k < kTile / kWarp.
  template <class F>
  __device__ void for_each_column(const F& column) const {
#pragma unroll
    for (unsigned k = 0; k < kTile / kWarp; ++k) {
      const unsigned c = k * kWarp + threadIdx.x % kWarp;
      if (c < tile.columns) column(k, c);
    }
  }
};

template <class T>
__global__ void adafactor_sums_kernel(double* sums, Table table, const double* factor,
                                      Live<formulas::Adafactor> scalars) {
  __shared__ double of_warps[kThreads / kWarp][kTile];
  const Here<T> here(table);
  const Gradient<T> g = table.gradient<T>(2, Piece{here.tensor, 0, 0}, factor);
  if (here.rows == nullptr) {
    const formulas::Adafactor f = scalars.get();
    here.for_each_row([&](int64_t, int64_t at) {
      here.for_each_column([&](unsigned, unsigned column) {
        T& v = here.v[at + column];
        v = f.square(v, g[at + column]);
      });
    });
    return;
  }
  const Matrices& t = here.t;
  double of_columns[kTile / kWarp] = {};
  here.for_each_row([&](int64_t r, int64_t at) {
    double of_row = 0;
    here.for_each_column([&](unsigned k, unsigned column) {
      const double grad = limited(g[at + column]), square = grad * grad;
      of_row += square;
      of_columns[k] += square;
    });
    of_row = merge_warp(of_row, [](double x, double y) { return x + y; });
    if (threadIdx.x % kWarp == 0) sums[t.row_sum(here.tile.matrix, here.tile.column / kTile, r)] = of_row;
  });
  here.for_each_column(
      [&](unsigned k, unsigned column) { of_warps[threadIdx.x / kWarp][column] = of_columns[k]; });
  __syncthreads();
  for (unsigned c = threadIdx.x; c < here.tile.columns; c += blockDim.x) {
    double sum = 0;
    for (const auto& of_warp : of_warps) sum += of_warp[c];
    sums[t.column_sum(here.tile.matrix, here.tile.row / kTile, here.tile.column + c)] = sum;
  }
}

/// The first tile in each row of tiles computes the moments of rows, and the first tile in each
/// column of tiles the moments of columns. Σ R of the rows is written to totals.
template <class T>
__global__ void adafactor_moments_kernel(double* totals, const double* sums, Table table,
                                         Live<formulas::Adafactor> scalars) {
  const Here<T> here(table);
  if (here.rows == nullptr) return;
  const formulas::Adafactor f = scalars.get();
  const auto average = [&](T& old, double sum, int64_t n) {
    return old = T(f.mean_square(old, sum / static_cast<double>(n)));
  };
  const Matrices& t = here.t;
  const Tile& tile = here.tile;
  if (tile.column == 0) {
    double total = 0;
    for (int64_t r = tile.row + threadIdx.x; r < tile.row + tile.rows; r += blockDim.x) {
      double sum = 0;
      for (int64_t k = 0; k < t.across(); ++k) sum += sums[t.row_sum(tile.matrix, k, r)];
      total += average(here.rows[r], sum, t.columns);
    }
    total = sum_block(total);
    if (threadIdx.x == 0) totals[here.n] = total;
  }
  if (tile.row == 0) {
    for (int64_t c = tile.column + threadIdx.x; c < tile.column + tile.columns; c += blockDim.x) {
      double sum = 0;
      for (int64_t k = 0; k < t.down(); ++k) sum += sums[t.column_sum(tile.matrix, k, c)];
      average(here.columns[c], sum, t.rows);
    }
  }
}

/// Calls f(i, v, scale) for the tile's elements i, where u = scale·g/√v.
template <class T, class F>
__device__ void for_each_update(const Here<T>& here, const double* totals, const F& f) {
  const Matrices& t = here.t;
  double mean = 0;
  if (here.rows != nullptr) {
    const double* const of_matrix = totals + t.first_tile + here.tile.matrix * t.down() * t.across();
    for (int64_t k = threadIdx.x; k < t.down(); k += blockDim.x) mean += of_matrix[k * t.across()];
    mean = sum_block(mean) / static_cast<double>(t.rows);
  }
  here.for_each_row([&](int64_t r, int64_t at) {
    const T scale = here.rows == nullptr ? T(1) : math::sqrt(T(mean)) / math::sqrt(here.rows[r]);
    const T* const second = here.rows == nullptr ? here.v + at : here.columns + here.tile.column;
    here.for_each_column([&](unsigned, unsigned column) { f(at + column, second[column], scale); });
  });
}

template <class T>
__global__ void adafactor_squares_kernel(double* squares, const double* totals, Table table,
                                         const double* factor) {
  const Here<T> here(table);
  const Master<T> master = table.master<T>(Piece{here.tensor, 0, 0});
  const Gradient<T> g = table.gradient<T>(2, Piece{here.tensor, 0, 0}, factor);
  const formulas::Adafactor f;
  double of_x = 0, of_u = 0;
  for_each_update(here, totals, [&](int64_t i, T v, T scale) {
    const T x = master.template load<1>(i).at[0], u = f.direction(g[i], v, scale);
    of_x += double{x} * double{x};
    of_u += double{u} * double{u};
  });
  of_x = sum_block(of_x);
  of_u = sum_block(of_u);
  if (threadIdx.x == 0) squares[2 * here.n] = of_x, squares[2 * here.n + 1] = of_u;
}

template <class T>
__global__ void adafactor_kernel(const double* sums, const double* totals, Table table, const double* factor,
                                 Live<formulas::Adafactor> scalars) {
  const formulas::Adafactor f = scalars.get();
  const Here<T> here(table);
  const Master<T> master = table.master<T>(Piece{here.tensor, 0, 0});
  const Gradient<T> g = table.gradient<T>(2, Piece{here.tensor, 0, 0}, factor);
  T* const m = static_cast<T*>(table.data[6][here.tensor]);
  const auto n = static_cast<double>(table.size[here.tensor]);
  const auto factors = f.factors(sums[2 * here.tensor] / n, sums[2 * here.tensor + 1] / n);
  for_each_update(here, totals, [&](int64_t i, T v, T scale) {
    T average = m == nullptr ? T(0) : m[i];
    auto mine = master.template load<1>(i);
    f.update(mine.at[0], f.direction(g[i], v, scale * T(factors.of_u)), average, factors.of_x);
    if (m != nullptr) m[i] = average;
    master.store(i, mine);
  });
}

}  // namespace

void adafactor_step(List& x, List& partners, const List& g, const Tensor& factor, List& rows, List& columns,
                    List& v, List& m, Live<formulas::Adafactor> s) {
  std::vector<Matrices> tilings;
  Matrices last;
  for (const Tensor& t : x) tilings.push_back(last = Matrices::of(t, last));
  const int64_t tiles = last.first_tile + last.tiles();
  const auto scratch = [&](int64_t n) { return empty({n}, DType::float64, x[0].device()); };
  Tensor sums = scratch(last.first_sum + last.count * last.sums()), totals = scratch(tiles),
         squares = scratch(2 * tiles);
  for_each_table<7, Matrices>(
      "adafactor_step", {&x, &partners, &g, &rows, &columns, &v, &m}, tilings,
      [&](auto type, const Table& table, unsigned blocks, int64_t done) {
        using T = typename decltype(type)::type;
        Tensor of_tensors = scratch(2 * table.count);
        VITRINE_LAUNCH((adafactor_sums_kernel<T>), blocks, kThreads, 0, sums.data<double>(), table,
                       address_of(factor), s);
        VITRINE_LAUNCH((adafactor_moments_kernel<T>), blocks, kThreads, 0, totals.data<double>(),
                       sums.data<double>(), table, s);
        VITRINE_LAUNCH((adafactor_squares_kernel<T>), blocks, kThreads, 0, squares.data<double>(),
                       totals.data<double>(), table, address_of(factor));
        VITRINE_LAUNCH((sum_pairs_kernel<Table>), static_cast<unsigned>(table.count), kThreads, 0,
                       of_tensors.data<double>(), squares.data<double>() + 2 * done, table);
        VITRINE_LAUNCH((adafactor_kernel<T>), blocks, kThreads, 0, of_tensors.data<double>(),
                       totals.data<double>(), table, address_of(factor), s);
      });
}

}  // namespace vitrine::optim::cuda
