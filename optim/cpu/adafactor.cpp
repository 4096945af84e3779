// Adafactor in four passes: sums of squares of tiles; means of rows and columns; the size of the
// update; the update.
#include "optim/kernels_adafactor.h"

#include <bit>
#include <cmath>

#include "core/creation.h"
#include "optim/cpu/pieces.h"
#include "optim/kernels.h"

namespace vitrine::optim {
namespace {

using Matrices = Tiling<32, 1024>;

}  // namespace
}  // namespace vitrine::optim

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optim/cpu/adafactor.cpp"
#include "core/simd/dispatch.h"
#include "core/simd/vector_loop-inl.h"
#include "optim/cpu/formulas-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vitrine {
namespace HWY_NAMESPACE {
namespace {

/// y = g, as floats or doubles.
template <class T, class G>
void load_row(T* y, G grad, size_t n) {
  for_each_vector<T>(n, [&](auto get, auto put) HWY_ATTR { put(y, get(grad)); });
}

/// of_columns += g²; returns the sum of g².
template <class T>
double add_squares(double* of_columns, const T* grad, size_t n) {
  double wide[optim::Matrices::kTileColumns];
  vecmath::convert(wide, grad, n);
  Vec<double> sum(0.0);
  for_each_vector<double>(n, [&](auto get, auto put) HWY_ATTR {
    const Vec<double> g = limited<double>(get(wide), optim::kLargestGradient<T>);
    put(of_columns, get(of_columns) + g * g);
    sum += g * g;
  });
  return reduce_sum(sum);
}

/// The second moment of a vector.
template <class T>
void moment_row(T* v, const T* grad, size_t n, const optim::formulas::Adafactor& numbers) {
  const auto f = std::bit_cast<formulas::Adafactor>(numbers);
  map(
      n, v, [&](Vec<T> v, Vec<T> grad) HWY_ATTR { return f.square(v, grad); }, v, grad);
}

/// {Σx², Σu²} of a row, where u = scale·g/√v.
template <class T, class X>
std::array<double, 2> squares_of_row(X x, const T* grad, const T* v, T scale, size_t n) {
  const formulas::Adafactor f;
  T u[optim::Matrices::kTileColumns];
  map(
      n, u, [&](Vec<T> g, Vec<T> v) HWY_ATTR { return f.direction(g, v, Vec<T>(scale)); }, grad, v);
  return {sum_of_squares<T>(x, n), sum_of_squares<T>(u, n)};
}

template <class T, class X>
void update_row(X x, const T* grad, const T* v, T* m, T scale, size_t n,
                const optim::formulas::Adafactor::Factors& factors,
                const optim::formulas::Adafactor& numbers) {
  const auto f = std::bit_cast<formulas::Adafactor>(numbers);
  const Vec<T> step(scale * static_cast<T>(factors.of_u));
  for_each_vector<T>(n, [&](auto get, auto put) HWY_ATTR {
    Vec<T> at = get(x), average = m == nullptr ? Vec<T>(T(0)) : get(m);
    f.update(at, f.direction(get(grad), get(v), step), average, factors.of_x);
    put(x, at);
    if (m != nullptr) put(m, average);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace vitrine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vitrine::optim::cpu {
namespace {

/// The data that the passes leave for each other.
struct Scratch {
  std::vector<Matrices> tensors;
  Tensor memory;
  double* sums;                   ///< of squares of g, at the positions of Tiling
  double* means;                  ///< of R, at the index of the matrix's first tile
  double *squares_x, *squares_u;  ///< Σx² and Σu² of each tile

  explicit Scratch(const List& x) {
    Matrices last;
    for (const Tensor& t : x) tensors.push_back(last = Matrices::of(t, last));
    const int64_t count = last.first_sum + last.count * last.sums(), tiles = last.first_tile + last.tiles();
    memory = empty({count + 3 * tiles}, DType::float64);
    sums = memory.data<double>();
    means = sums + count, squares_x = means + tiles, squares_u = squares_x + tiles;
  }
};

/// Calls f(Type<T>{}, tensor, part) for the `count(tensor)` parts of each tensor, in parallel.
template <class Count, class F>
void for_each_part(const List& xs, Count&& count, F&& f) {
  std::vector<std::pair<size_t, int64_t>> parts;
  for (size_t i = 0; i < xs.size(); ++i)
    for (int64_t k = 0; k < count(i); ++k) parts.emplace_back(i, k);
  parallel_for(0, static_cast<int64_t>(parts.size()), 1, [&](int64_t b, int64_t e) {
    for (int64_t n = b; n < e; ++n) {
      const auto [i, k] = parts[static_cast<size_t>(n)];
      visit_type("adafactor_step", xs[i], [&, i = i, k = k](auto type) { f(type, i, k); });
    }
  });
}

/// Row and column means of one matrix, from the sums of its tiles. Returns the mean of the new row
/// means.
template <class T>
double update_means(T* rows, T* columns, const Matrices& t, int64_t matrix, double* sums,
                    const formulas::Adafactor& f) {
  const auto average = [&f](T& old, double sum, int64_t n) {
    return old = static_cast<T>(f.mean_square(old, sum / static_cast<double>(n)));
  };
  double total = 0;
  for (int64_t r = 0; r < t.rows; ++r) {
    double sum = 0;
    for (int64_t k = 0; k < t.across(); ++k) sum += sums[t.row_sum(matrix, k, r)];
    total += average(rows[matrix * t.rows + r], sum, t.columns);
  }
  double* const of_columns =
      sums + t.column_sum(matrix, 0, 0);  // sums of the first tiles; the other sums are added
  for (int64_t k = 1; k < t.down(); ++k) {
    const double* const of_tiles = sums + t.column_sum(matrix, k, 0);
    for (int64_t c = 0; c < t.columns; ++c) of_columns[c] += of_tiles[c];
  }
  for (int64_t c = 0; c < t.columns; ++c) average(columns[matrix * t.columns + c], of_columns[c], t.rows);
  return total / static_cast<double>(t.rows);
}

}  // namespace

void adafactor_step(List& x, List& partners, const List& g, const Tensor& factor, List& rows, List& columns,
                    List& v, List& m, Live<formulas::Adafactor> live) {
  const formulas::Adafactor& f = live.value;
  Scratch scratch(x);
  const auto tiles = [&](size_t i) { return scratch.tensors[i].tiles(); };
  const auto begin_of = [](const Matrices& t, const Tile& tile, int64_t r) {
    return (tile.matrix * t.rows + tile.row + r) * t.columns + tile.column;
  };

  // Calls f(row) with a row of the gradient.
  const auto with_gradient = [&](auto type, size_t i, int64_t at, size_t width, auto&& f) {
    using T = typename decltype(type)::type;
    T row[Matrices::kTileColumns];
    visit_gradient<T>(g[i], factor, at, [&](auto grad) {
      VITRINE_DISPATCH(load_row<T, decltype(grad)>)(row, grad, width);
    });
    f(static_cast<const T*>(row));
  };

  for_each_part(x, tiles, [&](auto type, size_t i, int64_t n) {
    using T = typename decltype(type)::type;
    const Matrices& t = scratch.tensors[i];
    const Tile tile = t.tile(n);
    const auto width = static_cast<size_t>(tile.columns);
    if (!rows[i].defined()) {
      with_gradient(type, i, tile.column, width, [&](const T* grad) {
        VITRINE_DISPATCH(moment_row<T>)(place<T>(v, i, tile.column), grad, width, f);
      });
      return;
    }
    const int64_t across = tile.column / Matrices::kTileColumns, down = tile.row / Matrices::kTileRows;
    std::array<double, Matrices::kTileColumns> of_columns = {};
    for (int64_t r = 0; r < tile.rows; ++r)
      with_gradient(type, i, begin_of(t, tile, r), width, [&](const T* grad) {
        scratch.sums[t.row_sum(tile.matrix, across, tile.row + r)] =
            VITRINE_DISPATCH(add_squares<T>)(of_columns.data(), grad, width);
      });
    std::copy_n(of_columns.begin(), width, scratch.sums + t.column_sum(tile.matrix, down, tile.column));
  });

  const auto matrices = [&](size_t i) { return rows[i].defined() ? scratch.tensors[i].count : 0; };
  for_each_part(x, matrices, [&](auto type, size_t i, int64_t matrix) {
    using T = typename decltype(type)::type;
    const Matrices& t = scratch.tensors[i];
    scratch.means[t.first_tile + matrix * t.down() * t.across()] =
        update_means(place<T>(rows, i, 0), place<T>(columns, i, 0), t, matrix, scratch.sums, f);
  });

  // Calls visit(at, v, scale) for each row of a tile, where u = scale·g/√v.
  const auto for_each_row = [&](auto type, size_t i, const Tile& tile, auto&& visit) {
    using T = typename decltype(type)::type;
    const Matrices& t = scratch.tensors[i];
    const double mean =
        rows[i].defined() ? scratch.means[t.first_tile + tile.matrix * t.down() * t.across()] : 0;
    for (int64_t r = 0; r < tile.rows; ++r) {
      const int64_t at = begin_of(t, tile, r);
      if (rows[i].defined()) {
        const T row = *place<T>(rows, i, tile.matrix * t.rows + tile.row + r);
        visit(at, place<T>(columns, i, tile.matrix * t.columns + tile.column),
              std::sqrt(static_cast<T>(mean)) / std::sqrt(row));  // mean / row can be infinite
      } else {
        visit(at, place<T>(v, i, at), T(1));
      }
    }
  };

  for_each_part(x, tiles, [&](auto type, size_t i, int64_t n) {
    using T = typename decltype(type)::type;
    const Tile tile = scratch.tensors[i].tile(n);
    double of_x = 0, of_u = 0;
    const auto width = static_cast<size_t>(tile.columns);
    for_each_row(type, i, tile, [&](int64_t at, const T* second, T scale) {
      with_gradient(type, i, at, width, [&](const T* grad) {
        visit_master<T>(x, partners, i, at, [&](auto here) {
          const auto both =
              VITRINE_DISPATCH(squares_of_row<T, decltype(here)>)(here, grad, second, scale, width);
          of_x += both[0], of_u += both[1];
        });
      });
    });
    const int64_t place_of_tile = scratch.tensors[i].first_tile + n;
    scratch.squares_x[place_of_tile] = of_x, scratch.squares_u[place_of_tile] = of_u;
  });

  std::vector<formulas::Adafactor::Factors> factors;
  for (size_t i = 0; i < x.size(); ++i) {
    double of_x = 0, of_u = 0;
    for (int64_t k = 0; k < tiles(i); ++k) {
      const int64_t place_of_tile = scratch.tensors[i].first_tile + k;
      of_x += scratch.squares_x[place_of_tile], of_u += scratch.squares_u[place_of_tile];
    }
    const auto n = static_cast<double>(x[i].numel());
    factors.push_back(f.factors(of_x / n, of_u / n));
  }

  for_each_part(x, tiles, [&](auto type, size_t i, int64_t n) {
    using T = typename decltype(type)::type;
    const Tile tile = scratch.tensors[i].tile(n);
    const auto width = static_cast<size_t>(tile.columns);
    for_each_row(type, i, tile, [&](int64_t at, const T* second, T scale) {
      with_gradient(type, i, at, width, [&](const T* grad) {
        visit_master<T>(x, partners, i, at, [&](auto here) {
          VITRINE_DISPATCH(update_row<T, decltype(here)>)
          (here, grad, second, place<T>(m, i, at), scale, width, factors[i], f);
        });
      });
      round_copy<T>(partners, x, i, at, width);
    });
  });
}

}  // namespace vitrine::optim::cpu
#endif
