// The linear scan over strips of columns of the state. The forward is this scan. The gradients of
// v, of the first state, and the sums erase_to·dS are the same scan from the last position to the
// first, with q and k exchanged and the two erasing vectors exchanged.
#include <algorithm>

#include "core/memory/thread_buffer.h"
#include "core/parallel.h"
#include "ops/cpu/linear_scan/chunk.h"
#include "ops/cpu/rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/linear_scan/columns.cpp"
#include "core/simd/dispatch.h"
#include "core/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vitrine {
namespace HWY_NAMESPACE {
namespace scan {
using cpu::scan::ColumnChunk;
using cpu::scan::kColumns;

// A tile of the state is kTileRows rows of two vectors. With AVX-512 it takes 16 of 32 registers,
// and 8 of 16 otherwise.
inline constexpr size_t kTileRows = HWY_TARGET == HWY_AVX3 ? 8 : 4;

/// Rows [row, row + R) of two vectors of columns, through all positions of the chunk. Adds to y.
template <size_t R, bool kDecays, class T>
HWY_INLINE void tile(const ColumnChunk<T>& x, size_t row, size_t column) {
  using V = Vec<T>;
  constexpr size_t kNext = kLanes<T>;
  T* const state = x.state + row * kColumns + column;
  V s[R][2];
  for (size_t r = 0; r < R; ++r)
    s[r][0] = load(state + r * kColumns), s[r][1] = load(state + r * kColumns + kNext);
  for (size_t p = 0; p < x.n; ++p) {
    const T *const k = x.k + p * x.rows + row, *const q = x.q + p * x.rows + row;
    const T* const v = x.v + p * kColumns + column;
    T* const y = x.y + p * kColumns + column;
    const V v0 = load(v), v1 = load(v + kNext);
    V y0 = load(y), y1 = load(y + kNext);
    for (size_t r = 0; r < R; ++r) {
      if constexpr (kDecays) {
        const V w(x.w[p * x.rows + row + r]);
        s[r][0] *= w, s[r][1] *= w;
      }
      const V kr(k[r]), qr(q[r]);
      s[r][0] = mul_add(kr, v0, s[r][0]), s[r][1] = mul_add(kr, v1, s[r][1]);
      y0 = mul_add(qr, s[r][0], y0), y1 = mul_add(qr, s[r][1], y1);
    }
    store(y, y0), store(y + kNext, y1);
  }
  for (size_t r = 0; r < R; ++r)
    store(state + r * kColumns, s[r][0]), store(state + r * kColumns + kNext, s[r][1]);
}

/// Two vectors of columns, where each position reads all rows before it writes them. One pass over
/// the rows writes them for a position and reads them for the next one. Even and odd rows have sums
/// of their own, so that one addition does not wait for the other.
template <bool kDecays, class T>
HWY_INLINE void erasing_columns(const ColumnChunk<T>& x, size_t column) {
  using V = Vec<T>;
  constexpr size_t kNext = kLanes<T>;
  T* const state = x.state + column;
  V sum[2][2], y[2][2];
  const auto clear = [](V(&sums)[2][2])
                         HWY_ATTR { sums[0][0] = sums[0][1] = sums[1][0] = sums[1][1] = V(T(0)); };
  clear(sum);
  for (size_t i = 0; i < x.rows; ++i) {
    const V b(x.from[i]);
    V(&of)[2] = sum[i % 2];
    of[0] = mul_add(b, load(state + i * kColumns), of[0]);
    of[1] = mul_add(b, load(state + i * kColumns + kNext), of[1]);
  }
  for (size_t p = 0; p < x.n; ++p) {
    const size_t at = p * x.rows;
    const T *const k = x.k + at, *const q = x.q + at, *const to = x.to + at, *const w = x.w + at;
    const T* const next = x.from + std::min(p + 1, x.n - 1) * x.rows;  // of the last one: not used
    const V v0 = load(x.v + p * kColumns + column), v1 = load(x.v + p * kColumns + column + kNext);
    const V r0 = sum[0][0] + sum[1][0], r1 = sum[0][1] + sum[1][1];
    store(x.erased + p * kColumns + column, r0), store(x.erased + p * kColumns + column + kNext, r1);
    clear(y), clear(sum);
    const auto visit = [&](size_t i, size_t odd) HWY_ATTR {
      T* const row = state + i * kColumns;
      const V a(to[i]), ki(k[i]), qi(q[i]), b(next[i]);
      V s0 = load(row), s1 = load(row + kNext);
      if constexpr (kDecays) {
        const V wi(w[i]);
        s0 *= wi, s1 *= wi;
      }
      s0 = mul_add(ki, v0, mul_add(a, r0, s0)), s1 = mul_add(ki, v1, mul_add(a, r1, s1));
      store(row, s0), store(row + kNext, s1);
      y[odd][0] = mul_add(qi, s0, y[odd][0]), y[odd][1] = mul_add(qi, s1, y[odd][1]);
      sum[odd][0] = mul_add(b, s0, sum[odd][0]), sum[odd][1] = mul_add(b, s1, sum[odd][1]);
    };
    size_t i = 0;
    for (; i + 2 <= x.rows; i += 2) visit(i, 0), visit(i + 1, 1);
    if (i < x.rows) visit(i, 0);
    store(x.y + p * kColumns + column, y[0][0] + y[1][0]);
    store(x.y + p * kColumns + column + kNext, y[0][1] + y[1][1]);
  }
}

template <bool kDecays, class T>
HWY_INLINE void columns_of(const ColumnChunk<T>& x) {
  for (size_t column = 0; column < kColumns; column += 2 * kLanes<T>) {
    if (x.from != nullptr) {
      erasing_columns<kDecays>(x, column);
      continue;
    }
    size_t row = 0;
    for (; row + kTileRows <= x.rows; row += kTileRows) tile<kTileRows, kDecays>(x, row, column);
    for (; row < x.rows; ++row) tile<1, kDecays>(x, row, column);
  }
}

/// What is read at each position, y (zeros on entry), and the state after the chunk.
template <class T>
void columns(const ColumnChunk<T>& x) {
  x.w != nullptr ? columns_of<true>(x) : columns_of<false>(x);
}

}  // namespace scan
}  // namespace HWY_NAMESPACE
}  // namespace vitrine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vitrine::cpu {
namespace scan {
namespace {

enum class Use { columns, state };

/// One head and one strip of its columns. `k` is written with v, `q` reads.
template <class S>
struct Strip {
  using T = AccumulatorOf<S>;
  HeadRows<S> k, q, to, from, v;
  Decays<T> decays;
  T k_factor;  ///< of k
  int64_t time;
  size_t rows, begin, n;  ///< n of kColumns columns are in use

  Strip(const Tensor& k, const Tensor& q, const Tensor& to, const Tensor& from, const Tensor& v,
        const Tensor& log_decay, double k_factor, int64_t task)
      : Strip(k, q, to, from, v, log_decay, k_factor, task / strips(v), task % strips(v)) {}

  /// Scans `steps` positions. Step p writes and reads at position value(p), and decays and erases
  /// by position carry(p); nothing happens for positions that do not exist. before(p) is called
  /// before each chunk, after(p, y, erased) for each step.
  template <class Value, class Carry, class Before, class After>
  void run(T* state, int64_t steps, Value&& value, Carry&& carry, Before&& before, After&& after) const {
    const size_t vectors = kLength * rows, strip = kLength * kColumns;
    T* const buffer = detail::thread_buffer<T, Use::columns>(5 * vectors + 3 * strip);
    T *const w = buffer, *const ks = w + vectors, *const qs = ks + vectors, *const tos = qs + vectors,
             *const froms = tos + vectors, *const vs = froms + vectors, *const ys = vs + strip,
             *const erased = ys + strip;
    const bool erases = from.data != nullptr;
    for (int64_t first = 0; first < steps; first += kScanChunk) {
      const size_t count = static_cast<size_t>(std::min(kScanChunk, steps - first));
      before(first);
      for (size_t p = 0; p < count; ++p) {
        const int64_t at = value(first + static_cast<int64_t>(p)),
                      by = carry(first + static_cast<int64_t>(p));
        pack(ks + p * rows, k, at, time, 0, rows, k_factor);
        pack(qs + p * rows, q, at, time, 0, rows);
        pack(vs + p * kColumns, v, at, time, begin, n);
        std::fill_n(vs + p * kColumns + n, kColumns - n, T(0));
        if (decays.log != nullptr) decays.pack(w + p * rows, by, time, 0, rows);
        if (!erases) continue;
        pack(tos + p * rows, to, by, time, 0, rows);
        pack(froms + p * rows, from, by, time, 0, rows);
      }
      std::fill_n(ys, count * kColumns, T(0));
      VITRINE_DISPATCH(scan::columns<T>)
      ({count, rows, decays.log != nullptr ? w : nullptr, ks, qs, tos, erases ? froms : nullptr, vs, state,
        ys, erased});
      for (size_t p = 0; p < count; ++p)
        after(first + static_cast<int64_t>(p), ys + p * kColumns, erased + p * kColumns);
    }
  }

  /// Copies this strip between a matrix [rows, columns of the state] and a strip.
  void load(T* strip, const T* matrix, int64_t columns) const {
    for (size_t i = 0; i < rows; ++i) {
      std::copy_n(matrix + static_cast<int64_t>(i) * columns + begin, n, strip + i * kColumns);
      std::fill_n(strip + i * kColumns + n, kColumns - n, T(0));
    }
  }
  void store(T* matrix, const T* strip, int64_t columns) const {
    for (size_t i = 0; i < rows; ++i)
      std::copy_n(strip + i * kColumns, n, matrix + static_cast<int64_t>(i) * columns + begin);
  }

  static int64_t strips(const Tensor& v) {
    return (v.size(3) + static_cast<int64_t>(kColumns) - 1) / static_cast<int64_t>(kColumns);
  }

 private:
  Strip(const Tensor& k, const Tensor& q, const Tensor& to, const Tensor& from, const Tensor& v,
        const Tensor& log_decay, double k_factor, int64_t head, int64_t strip)
      : k(head_rows<S>(k, head)),
        q(head_rows<S>(q, head)),
        to(head_rows<S>(to, head)),
        from(head_rows<S>(from, head)),
        v(head_rows<S>(v, head)),
        decays(log_decay, head, k.size(3)),
        k_factor(static_cast<T>(k_factor)),
        time(k.size(2)),
        rows(static_cast<size_t>(k.size(3))),
        begin(static_cast<size_t>(strip) * kColumns),
        n(std::min(kColumns, static_cast<size_t>(v.size(3)) - begin)) {}
};

/// Calls f(type, task, head) in parallel for each strip of columns of each head.
template <class F>
void for_each_strip(const char* kernel, const Tensor& q, const Tensor& v, F&& f) {
  const int64_t strips = v.size(3) == 0 ? 1 : Strip<float>::strips(v), heads = q.size(0) * q.size(1);
  const int64_t cost = 4 * (q.size(2) + 1) * q.size(3) * static_cast<int64_t>(kColumns);
  visit_row_type(q.dtype(), kernel, [&](auto type) {
    parallel_for(0, v.size(3) == 0 ? 0 : heads * strips, grain_for(cost), [&](int64_t b, int64_t e) {
      for (int64_t task = b; task < e; ++task) f(type, task, task / strips);
    });
  });
}

}  // namespace
}  // namespace scan

void linear_scan(Tensor& y, Tensor& state, Tensor& erased, Tensor& boundaries, const Tensor& q,
                 const Tensor& k, const Tensor& v, const Tensor& log_decay, const Tensor& erase_to,
                 const Tensor& erase_from, const Tensor& first, double scale) {
  const int64_t time = v.size(2), columns = v.size(3), size = q.size(3) * columns;
  scan::for_each_strip("linear_scan", q, v, [&](auto type, int64_t task, int64_t head) {
    using S = typename decltype(type)::type;
    using T = AccumulatorOf<S>;
    const scan::Strip<S> strip(k, q, erase_to, erase_from, v, log_decay, 1, task);
    T* const s = detail::thread_buffer<T, scan::Use::state>(strip.rows * scan::kColumns);
    strip.load(s, first.data<T>() + head * size, columns);
    const auto same = [](int64_t p) { return p; };
    strip.run(
        s, time, same, same,
        [&](int64_t p) {
          if (boundaries.defined())
            strip.store(boundaries.data<T>() + (head * boundaries.size(2) + p / kScanChunk) * size, s,
                        columns);
        },
        [&](int64_t p, T* row, const T* erased_row) {
          const int64_t at = (head * time + p) * columns + static_cast<int64_t>(strip.begin);
          if (scale != 1) vecmath::scale(row, row, static_cast<T>(scale), strip.n);
          vecmath::convert(y.data<S>() + at, row, strip.n);
          if (erased.defined()) std::copy_n(erased_row, strip.n, erased.data<T>() + at);
        });
    strip.store(state.data<T>() + head * size, s, columns);
  });
}

void linear_scan_backward_columns(Tensor& dv, Tensor& added, Tensor& dfirst, const Tensor& dy,
                                  const Tensor& dstate, const Tensor& q, const Tensor& k,
                                  const Tensor& log_decay, const Tensor& erase_to, const Tensor& erase_from,
                                  double scale) {
  const int64_t time = dy.size(2), columns = dy.size(3), size = q.size(3) * columns;
  scan::for_each_strip("linear_scan_backward", q, dy, [&](auto type, int64_t task, int64_t head) {
    using S = typename decltype(type)::type;
    using T = AccumulatorOf<S>;
    const scan::Strip<S> strip(q, k, erase_from, erase_to, dy, log_decay, scale, task);
    T* const s = detail::thread_buffer<T, scan::Use::state>(strip.rows * scan::kColumns);
    strip.load(s, dstate.data<T>() + head * size, columns);
    // dS after position t becomes dS before it by the decay and the erasing of position t, which is
    // the step before the one that adds what position t − 1 reads.
    strip.run(
        s, time + 1, [=](int64_t p) { return time - 1 - p; }, [=](int64_t p) { return time - p; },
        [](int64_t) {},
        [&](int64_t p, const T* row, const T* added_row) {
          const int64_t at = (head * time + time - 1 - p) * columns + static_cast<int64_t>(strip.begin);
          if (p < time) vecmath::convert(dv.data<S>() + at, row, strip.n);
          if (p > 0 && added.defined()) std::copy_n(added_row, strip.n, added.data<T>() + at + columns);
        });
    strip.store(dfirst.data<T>() + head * size, s, columns);
  });
}

}  // namespace vitrine::cpu
#endif
