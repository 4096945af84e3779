// The update of Adafactor, and how it divides matrices into tiles, on both devices.
#pragma once

#include "core/gpu/capture.h"
#include "core/kernel_macros.h"
#include "optim/formulas.h"

namespace vitrine::optim {

/// Rows and columns of one matrix of a stack. The matrices are stored row by row.
struct Tile {
  int64_t matrix, row, column;  ///< where the tile begins
  int64_t rows, columns;
};

/// A tensor as `count` matrices [rows, columns], its last two axes, in tiles of at most kRows ×
/// kColumns; a vector is one row. A tile writes the sums of its rows and of its columns to a
/// scratch array, at the positions given here.
template <int64_t kRows, int64_t kColumns>
struct Tiling {
  static constexpr int64_t kTileRows = kRows, kTileColumns = kColumns;
  int64_t count = 0, rows = 1, columns = 0;
  int64_t first_tile = 0, first_sum = 0;  ///< of the tensor

  /// The tiling of x, whose tiles and sums follow those of `before`.
  static Tiling of(const Tensor& x, const Tiling& before) {
    Tiling t;
    const int rank = x.shape().rank();
    t.rows = rank < 2 ? 1 : x.size(rank - 2);
    t.columns = rank < 2 ? x.numel() : x.size(rank - 1);
    if (x.numel() > 0) t.count = x.numel() / (t.rows * t.columns);
    t.first_tile = before.first_tile + before.tiles();
    t.first_sum = before.first_sum + before.count * before.sums();
    return t;
  }

  VITRINE_HD int64_t down() const { return (rows + kRows - 1) / kRows; }
  VITRINE_HD int64_t across() const { return (columns + kColumns - 1) / kColumns; }
  VITRINE_HD int64_t tiles() const { return count * down() * across(); }
  VITRINE_HD Tile tile(int64_t n) const {
    const int64_t row = n / across() % down() * kRows, column = n % across() * kColumns;
    return {n / (down() * across()), row, column, rows - row < kRows ? rows - row : kRows,
            columns - column < kColumns ? columns - column : kColumns};
  }
  /// The number of sums that the tiles of one matrix write.
  VITRINE_HD int64_t sums() const { return across() * rows + down() * columns; }
  /// The position of the sum over the k-th tile of this row, or of this column.
  VITRINE_HD int64_t row_sum(int64_t matrix, int64_t k, int64_t row) const {
    return first_sum + matrix * sums() + k * rows + row;
  }
  VITRINE_HD int64_t column_sum(int64_t matrix, int64_t k, int64_t column) const {
    return first_sum + matrix * sums() + across() * rows + k * columns + column;
  }
};

/// For matrices R ← β₂R + (1 − β₂)·(row means of g² + 1e-30), C likewise from column means, and v =
/// R·C/mean(R). For other tensors v ← β₂v + (1 − β₂)(g² + 1e-30). u = g/√v times a factor or, if
/// `m` is not empty, m ← β₁m + (1 − β₁)u replaces it. x is multiplied by its factor, and u is
/// subtracted; `partners` and `factor` as in optim/kernels.h. Each tensor has either `rows` and
/// `columns` or `v`; the others are undefined.
VITRINE_KERNEL(adafactor_step, std::vector<Tensor>& x, std::vector<Tensor>& partners,
               const std::vector<Tensor>& g, const Tensor& factor, std::vector<Tensor>& rows,
               std::vector<Tensor>& columns, std::vector<Tensor>& v, std::vector<Tensor>& m,
               Live<formulas::Adafactor> s);

}  // namespace vitrine::optim
