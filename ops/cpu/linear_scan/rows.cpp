// The gradients of a linear scan that are sums over the columns of the state, in strips of rows. A
// chunk starts from a state that the forward has kept. The states within the chunk are computed
// again and used from the last to the first.
#include <algorithm>

#include "core/memory/thread_buffer.h"
#include "core/parallel.h"
#include "ops/cpu/linear_scan/chunk.h"
#include "ops/cpu/rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/linear_scan/rows.cpp"
#include "core/simd/dispatch.h"
#include "core/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vitrine {
namespace HWY_NAMESPACE {
namespace scan {
using cpu::scan::kRows;
using cpu::scan::RowChunk;

// A tile is kTileColumns columns of two vectors of rows. With AVX-512 it takes 8 of 32 registers,
// and the vectors that all columns share take up to 16.
inline constexpr size_t kTileColumns = HWY_TARGET == HWY_AVX3 ? 4 : 2;

/// What a scan has.
template <bool decay, bool erasing, bool decay_gradient>
struct Terms {
  static constexpr bool kDecay = decay, kErasing = erasing, kDecayGradient = decay_gradient;
  static constexpr bool kStates = erasing || decay_gradient;  ///< the backward reads the states
};

/// Two vectors of rows: of an operand, or of sums.
template <class T>
struct Pair {
  Vec<T> at[2];

  Pair() = default;
  explicit HWY_INLINE Pair(T x) : at{Vec<T>(x), Vec<T>(x)} {}
  explicit HWY_INLINE Pair(const T* x) : at{load(x), load(x + kLanes<T>)} {}
  HWY_INLINE void put(T* y) const { store(y, at[0]), store(y + kLanes<T>, at[1]); }
  /// this += x·y
  template <class Y>
  HWY_INLINE void add(const Pair& x, const Y& y) {
    for (size_t i = 0; i < 2; ++i) at[i] = mul_add(x.at[i], of(y, i), at[i]);
  }
  HWY_INLINE void multiply(const Pair& x) { at[0] *= x.at[0], at[1] *= x.at[1]; }

 private:
  static HWY_INLINE Vec<T> of(const Pair& y, size_t i) { return y.at[i]; }
  static HWY_INLINE Vec<T> of(const Vec<T>& y, size_t) { return y; }
};

/// Columns [j, j + R) of two vectors of rows: the states, and the sums for dq.
template <size_t R, class Has, class T>
HWY_INLINE void forward_tile(const RowChunk<T>& x, size_t j, size_t row) {
  using V = Vec<T>;
  Pair<T> s[R];
  for (size_t r = 0; r < R; ++r) s[r] = Pair<T>(x.state + (j + r) * kRows + row);
  T* kept = x.states;
  for (size_t p = 0; p < x.n; ++p) {
    const size_t at = p * kRows + row, of = p * x.columns + j;
    const Pair<T> k(x.k + at);
    Pair<T> w(T(1)), to(T(0)), dq(x.dq + at);
    if constexpr (Has::kDecay) w = Pair<T>(x.w + at);
    if constexpr (Has::kErasing) to = Pair<T>(x.to + at);
    for (size_t r = 0; r < R; ++r) {
      if constexpr (Has::kStates) s[r].put(kept), kept += 2 * kLanes<T>;
      if constexpr (Has::kDecay) s[r].multiply(w);
      if constexpr (Has::kErasing) s[r].add(to, V(x.erased[of + r]));
      s[r].add(k, V(x.v[of + r]));
      dq.add(s[r], V(x.dy[of + r]));
    }
    dq.put(x.dq + at);
  }
}

/// The same columns and rows from the last position to the first: the gradients of the states, and
/// the sums for the other gradients.
template <size_t R, class Has, class T>
HWY_INLINE void backward_tile(const RowChunk<T>& x, size_t j, size_t row) {
  using V = Vec<T>;
  T* const dstate = x.dstate + j * kRows + row;
  Pair<T> ds[R];
  for (size_t r = 0; r < R; ++r) ds[r] = Pair<T>(dstate + r * kRows);
  for (size_t p = x.n; p-- > 0;) {
    const size_t at = p * kRows + row, of = p * x.columns + j;
    const T* const kept = x.states + p * R * 2 * kLanes<T>;
    const Pair<T> q(x.q + at);
    Pair<T> w(T(1)), from(T(0)), dk(x.dk + at), dw(T(0)), dto(T(0)), dfrom(T(0));
    if constexpr (Has::kDecay) w = Pair<T>(x.w + at);
    if constexpr (Has::kDecayGradient) dw = Pair<T>(x.dw + at);
    if constexpr (Has::kErasing)
      from = Pair<T>(x.from + at), dto = Pair<T>(x.dto + at), dfrom = Pair<T>(x.dfrom + at);
    for (size_t r = 0; r < R; ++r) {
      Pair<T>& d = ds[r];
      d.add(q, V(x.dy[of + r]));
      dk.add(d, V(x.v[of + r]));
      Pair<T> before(T(0));
      if constexpr (Has::kStates) before = Pair<T>(kept + r * 2 * kLanes<T>);
      if constexpr (Has::kDecayGradient) dw.add(d, before);
      if constexpr (Has::kErasing) dto.add(d, V(x.erased[of + r]));
      if constexpr (Has::kDecay) d.multiply(w);
      if constexpr (Has::kErasing) {
        const V added(x.added[of + r]);
        dfrom.add(before, added), d.add(from, added);
      }
    }
    dk.put(x.dk + at);
    if constexpr (Has::kDecayGradient) dw.put(x.dw + at);
    if constexpr (Has::kErasing) dto.put(x.dto + at), dfrom.put(x.dfrom + at);
  }
  for (size_t r = 0; r < R; ++r) ds[r].put(dstate + r * kRows);
}

template <class Has, class T>
HWY_INLINE void rows_of(const RowChunk<T>& x) {
  for (size_t row = 0; row < kRows; row += 2 * kLanes<T>) {
    size_t j = 0;
    for (; j + kTileColumns <= x.columns; j += kTileColumns) {
      forward_tile<kTileColumns, Has>(x, j, row);
      backward_tile<kTileColumns, Has>(x, j, row);
    }
    for (; j < x.columns; ++j) forward_tile<1, Has>(x, j, row), backward_tile<1, Has>(x, j, row);
  }
}

/// Adds to the gradients of the chunk. `states` has room for kLength tiles.
template <class T>
void rows(const RowChunk<T>& x) {
  if (x.to != nullptr)
    return x.dw != nullptr  ? rows_of<Terms<true, true, true>>(x)
           : x.w != nullptr ? rows_of<Terms<true, true, false>>(x)
                            : rows_of<Terms<false, true, false>>(x);
  x.dw != nullptr  ? rows_of<Terms<true, false, true>>(x)
  : x.w != nullptr ? rows_of<Terms<true, false, false>>(x)
                   : rows_of<Terms<false, false, false>>(x);
}

}  // namespace scan
}  // namespace HWY_NAMESPACE
}  // namespace vitrine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vitrine::cpu {
namespace scan {
namespace {

enum class Use { rows };
inline constexpr size_t kMostTile = 4;  ///< columns

/// Consecutive parts of one buffer.
template <class T>
class Parts {
 public:
  explicit Parts(T* buffer) : next_(buffer) {}
  T* take(size_t n) {
    T* const part = next_;
    next_ += n;
    return part;
  }

 private:
  T* next_;
};

/// The tensors of the kernel; undefined ones are not needed.
struct Gradients {
  Tensor &dq, &dk, &dlog_decay, &derase_to, &derase_from;
};
struct Operands {
  const Tensor &dy, &dstate, &q, &k, &v, &log_decay, &erase_to, &erase_from, &erased, &added, &boundaries;
  double scale;
};

/// One head and one strip of its rows.
template <class S>
class Strip {
 public:
  using T = AccumulatorOf<S>;

  Strip(const Operands& x, int64_t head, int64_t strip)
      : x_(x),
        head_(head),
        time_(x.q.size(2)),
        columns_(static_cast<size_t>(x.v.size(3))),
        begin_(static_cast<size_t>(strip) * kRows),
        n_(std::min(kRows, static_cast<size_t>(x.q.size(3)) - begin_)),
        q_(head_rows<S>(x.q, head)),
        k_(head_rows<S>(x.k, head)),
        v_(head_rows<S>(x.v, head)),
        dy_(head_rows<S>(x.dy, head)),
        to_(head_rows<S>(x.erase_to, head)),
        from_(head_rows<S>(x.erase_from, head)),
        decays_(x.log_decay, head, x.q.size(3)) {}

  void run(const Gradients& gradients) {
    const size_t vectors = kLength * kRows, wide = kLength * columns_, matrix = columns_ * kRows;
    Parts<T> parts(detail::thread_buffer<T, Use::rows>(10 * vectors + 4 * wide + 2 * matrix +
                                                       kLength * kMostTile * kRows));
    T *const w = parts.take(vectors), *const k = parts.take(vectors), *const q = parts.take(vectors),
             *const to = parts.take(vectors), *const from = parts.take(vectors), *const v = parts.take(wide),
             *const dy = parts.take(wide), *const erased = parts.take(wide), *const added = parts.take(wide),
             *const state = parts.take(matrix), *const dstate = parts.take(matrix),
             *const states = parts.take(kLength * kMostTile * kRows), *const sums = parts.take(5 * vectors);
    const bool erases = to_.data != nullptr, decays = decays_.log != nullptr;
    transpose(dstate, x_.dstate.data<T>() + head_ * x_.q.size(3) * x_.v.size(3));
    for (int64_t chunk = x_.boundaries.size(2) - 1; chunk >= 0; --chunk) {
      const int64_t first = chunk * kScanChunk;
      const size_t count = static_cast<size_t>(std::min(kScanChunk, time_ - first));
      transpose(state, x_.boundaries.data<T>() +
                           (head_ * x_.boundaries.size(2) + chunk) * x_.q.size(3) * x_.v.size(3));
      for (size_t p = 0; p < count; ++p) {
        const int64_t t = first + static_cast<int64_t>(p);
        const size_t at = p * kRows, of = p * columns_;
        pack_rows(k + at, k_, t), pack_rows(q + at, q_, t, static_cast<T>(x_.scale));
        pack(v + of, v_, t, time_, 0, columns_), pack(dy + of, dy_, t, time_, 0, columns_);
        if (decays) decays_.pack(w + at, t, time_, begin_, n_), std::fill_n(w + at + n_, kRows - n_, T(0));
        if (!erases) continue;
        pack_rows(to + at, to_, t), pack_rows(from + at, from_, t);
        const int64_t wide_at = (head_ * time_ + t) * x_.v.size(3);
        std::copy_n(x_.erased.data<T>() + wide_at, columns_, erased + of);
        std::copy_n(x_.added.data<T>() + wide_at, columns_, added + of);
      }
      std::fill_n(sums, 5 * vectors, T(0));
      T *const dw = sums, *const dk = dw + vectors, *const dq = dk + vectors, *const dto = dq + vectors,
               *const dfrom = dto + vectors;
      VITRINE_DISPATCH(scan::rows<T>)
      ({count, columns_, decays ? w : nullptr, k, q, erases ? to : nullptr, from, v, dy, erased, added, state,
        dstate, states, gradients.dlog_decay.defined() ? dw : nullptr, dk, dq, dto, dfrom});
      for (size_t p = 0; p < count; ++p) {
        const int64_t t = first + static_cast<int64_t>(p);
        const size_t at = p * kRows;
        vecmath::scale(dq + at, dq + at, static_cast<T>(x_.scale), n_);
        put<S>(gradients.dq, dq + at, t), put<S>(gradients.dk, dk + at, t);
        if (gradients.dlog_decay.defined()) {
          vecmath::multiply(dw + at, dw + at, w + at, n_);
          put<T>(gradients.dlog_decay, dw + at, t);
        }
        if (erases) put<S>(gradients.derase_to, dto + at, t), put<S>(gradients.derase_from, dfrom + at, t);
      }
    }
  }

 private:
  /// The rows of this strip of a matrix [rows, columns], as columns.
  void transpose(T* to, const T* matrix) const {
    std::fill_n(to, columns_ * kRows, T(0));
    for (size_t i = 0; i < n_; ++i)
      for (size_t j = 0; j < columns_; ++j) to[j * kRows + i] = matrix[(begin_ + i) * columns_ + j];
  }

  void pack_rows(T* to, const HeadRows<S>& x, int64_t t, T factor = 1) const {
    pack(to, x, t, time_, begin_, n_, factor);
    std::fill_n(to + n_, kRows - n_, T(0));
  }

  template <class D>
  void put(Tensor& gradient, const T* from, int64_t t) const {
    const int64_t at = (head_ * time_ + t) * x_.q.size(3) + static_cast<int64_t>(begin_);
    vecmath::convert(gradient.data<D>() + at, from, n_);
  }

  const Operands& x_;
  int64_t head_, time_;
  size_t columns_, begin_, n_;
  HeadRows<S> q_, k_, v_, dy_, to_, from_;
  Decays<T> decays_;
};

}  // namespace
}  // namespace scan

void linear_scan_backward_rows(Tensor& dq, Tensor& dk, Tensor& dlog_decay, Tensor& derase_to,
                               Tensor& derase_from, const Tensor& dy, const Tensor& dstate, const Tensor& q,
                               const Tensor& k, const Tensor& v, const Tensor& log_decay,
                               const Tensor& erase_to, const Tensor& erase_from, const Tensor& erased,
                               const Tensor& added, const Tensor& boundaries, double scale) {
  const scan::Operands x{dy,       dstate,     q,      k,     v,          log_decay,
                         erase_to, erase_from, erased, added, boundaries, scale};
  const scan::Gradients gradients{dq, dk, dlog_decay, derase_to, derase_from};
  constexpr int64_t kRows = scan::kRows;
  const int64_t strips = (q.size(3) + kRows - 1) / kRows, heads = q.size(0) * q.size(1);
  visit_row_type(q.dtype(), "linear_scan_backward", [&](auto type) {
    using S = typename decltype(type)::type;
    parallel_for(0, heads * strips, grain_for(10 * q.size(2) * v.size(3) * kRows), [&](int64_t b, int64_t e) {
      for (int64_t task = b; task < e; ++task) scan::Strip<S>(x, task / strips, task % strips).run(gradients);
    });
  });
}

}  // namespace vitrine::cpu
#endif
