// What the kernels of the linear scan read: rows of each head, and decays.
#pragma once

#include "core/math.h"
#include "cuda/scan_lines.h"
#include "cuda/strided.h"

namespace vitrine::cuda::linear_scan_operands {

/// Elements of a line that a thread holds, unless a line is too long for a warp.
inline constexpr int kFew = 8;
inline ScanLanes lanes_for(int64_t n, const char* op, const char* argument) {
  return ScanLanes::of(n, kFew, kWarp, 0, op, argument);
}
inline constexpr int kThreadsOfScan = 128;

/// The rows of one head of an operand. Undefined: data is null.
template <class S>
struct HeadRows {
  S* data;
  int64_t stride;

  /// Copies elements of rows of n, from element `first` on, for the positions from `begin` on.
  template <class T>
  __device__ void copy_to(const ScanTile<T>& tile, int64_t begin, int positions, int64_t first,
                          int64_t n) const {
    tile.copy(positions, data + begin * stride, stride, first, n);
  }
};

/// The rows of each head of an operand [B, H, T, n].
template <class S>
struct Rows {
  S* data = nullptr;
  int64_t heads = 1, batch_stride = 0, head_stride = 0, stride = 0;

  explicit Rows(const Tensor& x) {
    if (!x.defined()) return;
    data = x.data<S>(), heads = x.size(1);
    batch_stride = x.strides()[0], head_stride = x.strides()[1], stride = x.strides()[2];
  }
  __device__ HeadRows<S> of(int64_t head) const {
    return {data + head / heads * batch_stride + head % heads * head_stride, stride};
  }
};

template <class T>
struct Decays {
  const T* log = nullptr;  ///< null: no decay
  bool of_rows = false;
  int64_t rows;

  Decays(const Tensor& g, int64_t rows) : rows(rows) {
    if (g.defined()) log = g.data<T>(), of_rows = g.rank() == 4;
  }
  /// Fills a tile with the decays of rows first, first + 1, … at positions from `begin` on, which
  /// are counted over all heads.
  __device__ void copy_to(const ScanTile<T>& tile, int64_t begin, int positions, int64_t first) const {
    const auto exponential = [](T x) { return math::exp(x); };
    if (log == nullptr) {
      tile.fill(
          positions, rows - first, [](int, int) { return T(1); }, [](T x) { return x; });
    } else if (of_rows) {
      const T* const from = log + begin * rows + first;
      tile.fill(
          positions, rows - first, [&](int t, int i) { return from[t * rows + i]; }, exponential);
    } else {
      tile.fill(
          positions, rows - first, [&](int t, int) { return log[begin + t]; }, exponential);
    }
  }
};

/// The operands that all scans read.
template <class S>
struct Scan {
  using T = AccumulatorOf<S>;
  Rows<S> q, k, to, from;
  Decays<T> decays;
  int64_t time, rows, columns;
  T scale;
  int lanes, width, lines;  ///< as in ScanLanes

  Scan(const Tensor& q, const Tensor& k, const Tensor& to, const Tensor& from, const Tensor& g,
       int64_t columns, double scale, const ScanLanes& lanes)
      : q(q),
        k(k),
        to(to),
        from(from),
        decays(g, q.size(3)),
        time(q.size(2)),
        rows(q.size(3)),
        columns(columns),
        scale(static_cast<T>(scale)),
        lanes(lanes.lanes),
        width(lanes.width()),
        lines(lanes.lines_per_block()) {}
  __device__ bool erases() const { return to.data != nullptr; }
};

template <class T>
T* data_or_null(const Tensor& x) {
  return x.defined() ? x.data<T>() : nullptr;
}

}  // namespace vitrine::cuda::linear_scan_operands
