// A chunk of positions of a linear scan: operands that are contiguous and have the wide type.
//
// The state of one head is a matrix [dk, dv]. Scans work on a strip of it: the forward on some of
// its columns, the gradients of q, k and the decay on some of its rows. Elements of a strip are
// independent of other strips, except that what erases is a sum over all rows. The backward knows
// these sums from earlier scans.
//
// The kernels visit one position after another. Part of the strip stays in registers during a
// chunk, and each element then costs three operations per position: S ← w·S, S ← S + k·v and
// y ← y + q·S. Products of matrices within a chunk of C positions, of which half is visible, cost
// 2 + C·(dk + dv)/(2·dk·dv) operations instead, but small products run at a lower share of the
// peak (docs/ops.md has times).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "core/simd/row_functions.h"
#include "ops/cpu/head_rows.h"
#include "ops/kernels.h"

namespace vitrine::cpu::scan {

inline constexpr size_t kColumns = 32;  ///< in a strip of columns
inline constexpr size_t kRows = 32;     ///< in a strip of rows
inline constexpr size_t kLength = kScanChunk;

/// A chunk of n positions for a strip of columns: w, k, q, to and from [n, rows], v, y and erased
/// [n, kColumns], state [rows, kColumns]. w is null without decay, from if nothing is erased.
template <class T>
struct ColumnChunk {
  size_t n, rows;
  const T *w, *k, *q, *to, *from, *v;
  T *state, *y, *erased;
};

/// A chunk of n positions for a strip of rows: w, k, q, to, from and their gradients [n, kRows], v,
/// dy, erased and added [n, columns]. state [columns, kRows] is the state before the chunk; dstate
/// is the gradient of the state after the chunk and becomes that of the state before it. w is null
/// without decay, to if nothing is erased, dw if the gradient of the decay is not needed.
template <class T>
struct RowChunk {
  size_t n, columns;
  const T *w, *k, *q, *to, *from, *v, *dy, *erased, *added, *state;
  T *dstate, *states, *dw, *dk, *dq, *dto, *dfrom;
};

/// Undefined operands are null.
template <class S>
HeadRows<S> head_rows(const Tensor& x, int64_t head) {
  if (!x.defined()) return {};
  return HeadRows<S>::of(x, head / x.size(1), head % x.size(1));
}

/// to = factor·row t of x from column `begin` on; zeros if there is no position t.
template <class S, class T>
void pack(T* to, const HeadRows<S>& x, int64_t t, int64_t time, size_t begin, size_t n, T factor = 1) {
  if (t < 0 || t >= time) {
    std::fill_n(to, n, T(0));
    return;
  }
  vecmath::convert(to, x.row(t) + begin, n);
  if (factor != T(1)) vecmath::scale(to, to, factor, n);
}

/// The decays of one head.
template <class T>
struct Decays {
  const T* log = nullptr;  ///< null: no decay
  bool of_rows = false;    ///< one per row of the state and position, not one per position
  int64_t rows = 0;

  Decays(const Tensor& g, int64_t head, int64_t rows) : rows(rows) {
    if (!g.defined()) return;
    of_rows = g.rank() == 4;
    log = g.data<T>() + head * g.size(2) * (of_rows ? rows : 1);
  }
  /// to = the decays of n rows of the state at position t; 1 if there is no position t.
  void pack(T* to, int64_t t, int64_t time, size_t begin, size_t n) const {
    if (t < 0 || t >= time) {
      std::fill_n(to, n, T(1));
    } else if (of_rows) {
      vecmath::apply(vecmath::Function::exp, to, log + t * rows + static_cast<int64_t>(begin), n);
    } else {
      T w;
      vecmath::apply(vecmath::Function::exp, &w, log + t, size_t{1});
      std::fill_n(to, n, w);
    }
  }
};

}  // namespace vitrine::cpu::scan
