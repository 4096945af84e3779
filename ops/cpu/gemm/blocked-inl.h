// The packed matrix product, written once for every instruction set. Included inside a
// VITRINE_TARGET region by avx2.cpp, avx512.cpp and avx512_bf16.cpp; `S` is their description of
// the vector unit.
//
// The loops are those of Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication"
// (2008):
//
//   for each block of S::kColumns columns       B block [kDepth, kColumns] is packed
//     for each block of kDepth in K
//       for each panel of S::kRows rows         A panel [kRows, kDepth] stays in L2
//         for each strip of kStrip vectors      B strip stays in L2 (in L1 where K is short)
//           for each S::kTileRows rows          their part of A stays in L1, C's tile in registers
//
// The loop over strips goes along the rows of C.
//
// Every element of C is a chain of fused multiply-adds in ascending k within a block of K, and
// blocks are added in order. This order does not depend on M, N, tile shapes or threads, so all of
// them give the same bits.
//
// Packed operands consist of 4-byte units. A unit is a float or (S::kPerUnit = 2) two bfloat16
// neighbours in k, which S::fma multiplies and adds in one instruction. K is counted in units
// below.
#pragma once

// How sums are written: a row of a block of C becomes `alpha · sum + beta · c + bias`.
struct TileOutput {
  float* c;
  int64_t ldc;
  float alpha, beta;
  const float* bias;  // from the tile's first column on, or null
  int tail;           // valid lanes of the last vector
};

/// One row of a tile: c = alpha · sum + beta · c + bias.
template <class S, int NV>
inline __attribute__((always_inline)) void store_row(const typename S::V (&sum)[NV], const TileOutput& out,
                                                     int64_t i) {
  using V = typename S::V;
  const V alpha = S::set(out.alpha), beta = S::set(out.beta);
  float* c = out.c + i * out.ldc;
#pragma GCC unroll 4
  for (int v = 0; v < NV; ++v) {
    const bool whole = v + 1 < NV || out.tail == S::kWidth;
    V x = S::mul(sum[v], alpha);
    if (whole) {
      if (out.beta != 0) x = S::fma_float(beta, S::load(c + v * S::kWidth), x);
      if (out.bias != nullptr) x = S::add(x, S::load(out.bias + v * S::kWidth));
      S::store(c + v * S::kWidth, x);
    } else {
      if (out.beta != 0) x = S::fma_float(beta, S::load_partial(c + v * S::kWidth, out.tail), x);
      if (out.bias != nullptr) x = S::add(x, S::load_partial(out.bias + v * S::kWidth, out.tail));
      S::store_partial(c + v * S::kWidth, x, out.tail);
    }
  }
}

/// A tile of C, MR rows by NV vectors, over K units. a[i, k] is at a[i * lda + k] (kRowsOfA) or a[k
/// * lda + i]. b[k] is a row of NV vectors, with rows ldb apart. kPartialB: b is not packed, so its
/// last vector has only out.tail valid lanes.
template <class S, int MR, int NV, bool kRowsOfA, bool kPartialB, class TB>
void tile(int64_t K, const float* a, int64_t lda, const TB* b, int64_t ldb, const TileOutput& out) {
  using V = typename S::V;
  V sum[MR][NV];
#pragma GCC unroll 16
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) sum[i][v] = S::zero();
  // When the sums are written, C has been fetched. Without this, a tile waits for it at the end.
  if constexpr (S::kFetchC) {
#pragma GCC unroll 16
    for (int i = 0; i < MR; ++i) __builtin_prefetch(out.c + i * out.ldc, 1);
  }
#pragma GCC unroll 4
  for (int64_t k = 0; k < K; ++k) {
    V bk[NV];
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v)
      bk[v] = kPartialB && v + 1 == NV ? S::load_partial(b + v * S::kWidth, out.tail)
                                       : S::load(b + v * S::kWidth);
#pragma GCC unroll 16
    for (int i = 0; i < MR; ++i) {
      const V ai = S::broadcast(kRowsOfA ? a + i * lda + k : a + k * lda + i);
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) sum[i][v] = S::fma(ai, bk[v], sum[i][v]);
    }
    b += ldb;
  }
#pragma GCC unroll 16
  for (int i = 0; i < MR; ++i) store_row<S, NV>(sum[i], out, i);
}

template <class TB>
using Tile = void (*)(int64_t, const float*, int64_t, const TB*, int64_t, const TileOutput&);

/// The tile of `rows` (1 to S::kTileRows) by `vectors` (1 to S::kStrip).
template <class S, bool kRowsOfA, bool kPartialB, class TB>
struct Tiles {
  template <int... I>
  static constexpr std::array<Tile<TB>, sizeof...(I)> table(std::integer_sequence<int, I...>) {
    return {tile<S, I / S::kStrip + 1, I % S::kStrip + 1, kRowsOfA, kPartialB, TB>...};
  }
  static Tile<TB> of(int64_t rows, int64_t vectors) {
    static constexpr auto kTable = table(std::make_integer_sequence<int, S::kTileRows * S::kStrip>());
    return kTable[(rows - 1) * S::kStrip + vectors - 1];
  }
};

/// to[i, u] = units of `rows` rows of K elements in x; rows of `to` are `ld` units apart.
template <class S, class T>
void pack_rows(const T* x, int64_t ldx, int64_t rows, int64_t K, float* to, int64_t ld) {
  constexpr int64_t kStep = S::kWidth * S::kPerUnit;
  for (int64_t i = 0; i < rows; ++i) {
    const T* from = x + i * ldx;
    int64_t k = 0;
    for (; k + kStep <= K; k += kStep) S::store(to + i * ld + k / S::kPerUnit, S::load_units(from + k));
    if (k < K) S::store(to + i * ld + k / S::kPerUnit, S::load_units_partial(from + k, K - k));
  }
}

/// to[u, j] = units of `columns` columns of K elements in x [K, columns], padded with 0 to whole
/// vectors.
template <class S, class T>
void pack_columns(const T* x, int64_t ldx, int64_t columns, int64_t K, float* to, int64_t ld) {
  for (int64_t k = 0; k < K; k += S::kPerUnit, to += ld) {
    const T* from = x + k * ldx;
    const T* pair = k + 1 < K ? from + ldx : nullptr;
    int64_t j = 0;
    for (; j + S::kWidth <= columns; j += S::kWidth)
      S::store(to + j, S::load_columns(from + j, pair ? pair + j : nullptr));
    if (j < columns)
      S::store(to + j, S::load_columns_partial(from + j, pair ? pair + j : nullptr, columns - j));
  }
}

/// to[u, j] = units of `columns` columns of K elements, stored as the rows of x, padded with 0 to
/// whole vectors.
template <class S, class T>
void pack_transposed(const T* x, int64_t ldx, int64_t columns, int64_t K, float* to, int64_t ld) {
  using V = typename S::V;
  constexpr int64_t kStep = S::kWidth * S::kPerUnit;
  for (int64_t j = 0; j < columns; j += S::kWidth) {
    const int64_t valid = std::min<int64_t>(S::kWidth, columns - j);
    for (int64_t k = 0; k < K; k += kStep) {
      const int64_t left = std::min(kStep, K - k);
      V rows[S::kWidth];
      const T* from = x + j * ldx + k;
      if (valid == S::kWidth && left == kStep) {
#pragma GCC unroll 16
        for (int r = 0; r < S::kWidth; ++r) {
          rows[r] = S::load_units(from + r * ldx);
          // 16 rows at once are too many streams for the hardware prefetcher.
          __builtin_prefetch(from + r * ldx + 4 * kStep);
        }
      } else {
        for (int r = 0; r < S::kWidth; ++r)
          rows[r] = r < valid ? S::load_units_partial(from + r * ldx, left) : S::zero();
      }
      S::transpose(rows);
      float* column = to + k / S::kPerUnit * ld + j;
      if (left == kStep) {
#pragma GCC unroll 16
        for (int r = 0; r < S::kWidth; ++r) S::store(column + r * ld, rows[r]);
      } else {
        for (int r = 0; r < (left + S::kPerUnit - 1) / S::kPerUnit; ++r) S::store(column + r * ld, rows[r]);
      }
    }
  }
}

/// Splits `total` into the fewest equal parts of at most `most`, each a multiple of `unit`.
constexpr int64_t even_block(int64_t total, int64_t most, int64_t unit) {
  const int64_t parts = std::max<int64_t>(1, ceil_div(total, most));
  return std::max(unit, ceil_div(ceil_div(total, parts), unit) * unit);
}

/// The state of one blocked product: the current blocks of A and B and how to read them.
template <class S, class T, class TC>
class Blocked {
 public:
  explicit Blocked(const GemmTask<T, TC>& task)
      : t(task),
        rows_of_b(t.packed != nullptr ? t.packed_rows : t.K),
        columns_of_b(t.packed != nullptr ? t.packed_columns : t.N),
        depth(even_block(rows_of_b, S::kDepth, S::kWidth * S::kPerUnit)),
        columns(even_block(columns_of_b, S::kColumns, S::kStrip * S::kWidth)),
        direct_a(reads_a_in_place(t)),
        direct_b(S::kPerUnit == 1 && t.packed == nullptr && t.tb == Trans::no && t.M <= S::kFewRows &&
                 t.K > 0) {}

  void run() {
    for (int64_t j = 0; j < t.N; j += columns) {
      const int64_t n = std::min(columns, t.N - j);
      if constexpr (!kWideC) take_sums(n);
      // K = 0 still requires one pass, which writes beta · C + bias.
      int64_t k = 0;
      do {
        const int64_t d = std::min(depth, t.K - k);
        pack_b(j, n, k, d);
        for (int64_t i = 0; i < t.M; i += S::kRows) panel(i, std::min(S::kRows, t.M - i), j, n, k, d);
        k += d;
      } while (k < t.K);
    }
  }

  /// Packs all of B, block by block, in the order in which run() reads the blocks.
  void pack(float* to) const {
    for (int64_t j = 0; j < t.N; j += columns) {
      const int64_t n = std::min(columns, t.N - j);
      for (int64_t k = 0; k < t.K; k += depth)
        pack_block(j, n, k, std::min(depth, t.K - k), to + place_of(j, k));
    }
  }

 private:
  static constexpr bool kFloat = std::is_same_v<T, float>;
  static constexpr bool kWideC = std::is_same_v<TC, float>;

  /// Rows of A are read in place unless a panel of them would fall into few sets of the L2 cache,
  /// and only if they consist of whole units. With A stored by columns, a tile reads part of a
  /// cache line at every step of K; A is then read in place only if K is small.
  static bool reads_a_in_place(const GemmTask<T, TC>& t) {
    constexpr int64_t kBadStride = 4096, kFewSteps = 128;
    if (sizeof(T) * S::kPerUnit != sizeof(float)) return false;
    if (S::kPerUnit > 1 && (t.ta == Trans::yes || t.lda % S::kPerUnit != 0 || t.K % S::kPerUnit != 0 ||
                            reinterpret_cast<uintptr_t>(t.A) % sizeof(float) != 0))
      return false;
    return t.N <= S::kFewColumns ||
           (t.ta == Trans::no ? t.lda * sizeof(T) % kBadStride != 0 : t.K <= kFewSteps);
  }

  /// Strip number `index` of n columns. Strips have at most kStrip vectors and are as even as
  /// possible: 4 vectors are split 2 + 2, because a single vector is slow.
  struct Strip {
    int64_t vectors, at, width, valid;

    Strip(int64_t n, int64_t index) {
      const int64_t all = ceil_div(n, S::kWidth), even = all / count(n), longer = all % count(n);
      vectors = even + (index < longer ? 1 : 0);
      at = (index * even + std::min(index, longer)) * S::kWidth;
      width = vectors * S::kWidth;
      valid = std::min(width, n - at);
    }
    static int64_t count(int64_t n) { return ceil_div(n, S::kStrip * S::kWidth); }
  };

  /// Allocates float sums for a 16-bit C: for a panel's rows, or for all rows if K has several
  /// blocks.
  void take_sums(int64_t n) {
    const int64_t rows = depth >= t.K ? S::kRows : t.M;
    sums_of_c = scratch(Scratch::c, rows * ceil_div(n, S::kWidth) * S::kWidth);
  }

  /// The offset, in a B that is packed as a whole, of the block that begins at row k and column j.
  int64_t place_of(int64_t j, int64_t k) const {
    const int64_t width = ceil_div(std::min(columns, columns_of_b - j), S::kWidth) * S::kWidth;
    return ceil_div(rows_of_b, S::kPerUnit) * j + k / S::kPerUnit * width;
  }

  /// Points packed_b to a block of B in packed form.
  void pack_b(int64_t j, int64_t n, int64_t k, int64_t d) {
    if (direct_b) return;
    if (t.packed != nullptr) {
      packed_b = t.packed + place_of(j, k);
      return;
    }
    struct PackedBlock {
      uint64_t call;
      const void* at;
      int64_t columns, depth;
      bool operator==(const PackedBlock&) const = default;
    };
    thread_local PackedBlock packed;  // by an earlier part of the same call; `place` is where
    thread_local float* place;
    const PackedBlock wanted{t.call, t.B + (t.tb == Trans::yes ? j * t.ldb + k : k * t.ldb + j), n, d};
    packed_b = place;
    if (t.call != 0 && packed == wanted) return;
    packed = {};  // in case the allocation fails
    packed_b = place = scratch(Scratch::b, ceil_div(d, S::kPerUnit) * ceil_div(n, S::kWidth) * S::kWidth);
    packed = wanted;
    pack_block(j, n, k, d, place);
  }

  /// Packs a block of B strip by strip; each strip is [units, width].
  void pack_block(int64_t j, int64_t n, int64_t k, int64_t d, float* block) const {
    const int64_t units = ceil_div(d, S::kPerUnit);
    // B [K, N] is packed in bands of a few rows, which are read together from one end to the other.
    const int64_t band = t.tb == Trans::yes ? std::max<int64_t>(d, 1) : 8;
    for (int64_t r = 0; r < d; r += band) {
      for (int64_t index = 0; index < Strip::count(n); ++index) {
        const Strip strip(n, index);
        float* to = block + units * strip.at + r / S::kPerUnit * strip.width;
        if (t.tb == Trans::yes)
          pack_transposed<S>(t.B + (j + strip.at) * t.ldb + k, t.ldb, strip.valid, d, to, strip.width);
        else
          pack_columns<S>(t.B + (k + r) * t.ldb + j + strip.at, t.ldb, strip.valid, std::min(band, d - r), to,
                          strip.width);
      }
    }
  }

  /// Rows [i, i + m) of columns [j, j + n), over the block of K that begins at k.
  void panel(int64_t i, int64_t m, int64_t j, int64_t n, int64_t k, int64_t d) {
    const int64_t units = ceil_div(d, S::kPerUnit);
    const float* a;
    int64_t lda;
    if (direct_a) {
      a = reinterpret_cast<const float*>(t.ta == Trans::yes ? t.A + k * t.lda + i : t.A + i * t.lda + k);
      lda = t.lda / S::kPerUnit;
    } else {
      // Rows are padded by a cache line, so that rows at a power of two do not fall into one set of
      // the cache.
      lda = t.ta == Trans::yes ? S::kRows : depth / S::kPerUnit + 16;
      float* to = scratch(Scratch::a, t.ta == Trans::yes ? lda * units : lda * S::kRows);
      if (t.ta == Trans::yes)
        pack_columns<S>(t.A + k * t.lda + i, t.lda, m, d, to, lda);
      else
        pack_rows<S>(t.A + i * t.lda + k, t.lda, m, d, to, lda);
      a = to;
    }
    const bool first = k == 0, last = k + d >= t.K;
    TileOutput out;
    out.alpha = t.alpha;
    out.beta = first ? (kWideC ? t.beta : 0.0f) : 1.0f;
    out.bias = nullptr;
    if constexpr (kWideC) {
      out.c = t.C + i * t.ldc + j;
      out.ldc = t.ldc;
      if (last && t.epilogue.bias != nullptr) out.bias = t.epilogue.bias + j;
    } else {
      out.ldc = ceil_div(n, S::kWidth) * S::kWidth;
      out.c = sums_of_c + (depth >= t.K ? 0 : i * out.ldc);
    }
    const float* sums = out.c;
    const bool rows_of_a = t.ta == Trans::no;
    // The block of B in memory may be larger than the part of it that is used.
    const int64_t block_units = ceil_div(std::min(depth, rows_of_b - k), S::kPerUnit);
    const int64_t block_n = std::min(columns, columns_of_b - j);
    if (direct_b)
      rows_of_a ? strips<true, true>(a, lda, t.B + k * t.ldb + j, t.ldb, m, n, units, n, units, out)
                : strips<false, true>(a, lda, t.B + k * t.ldb + j, t.ldb, m, n, units, n, units, out);
    else
      rows_of_a ? strips<true, false>(a, lda, packed_b, 0, m, n, units, block_n, block_units, out)
                : strips<false, false>(a, lda, packed_b, 0, m, n, units, block_n, block_units, out);
    if (!last) return;
    if constexpr (!kWideC)
      convert_block<S>(1, sums, out.ldc, m, n, t.beta, t.epilogue.bias ? t.epilogue.bias + j : nullptr,
                       t.C + i * t.ldc + j, t.ldc);
    t.finish(i, m, j, n);
  }

  /// A block of C, [m, n], over `units` of K. b holds `block_n` columns and `block_units`; ldb = 0
  /// means that it is packed.
  template <bool kRowsOfA, bool kDirectB, class TB>
  static void strips(const float* a, int64_t lda, const TB* b, int64_t ldb, int64_t m, int64_t n,
                     int64_t units, int64_t block_n, int64_t block_units, TileOutput out) {
    float* const c = out.c;
    const float* const bias = out.bias;
    for (int64_t index = 0; index < Strip::count(block_n); ++index) {
      const Strip strip(block_n, index);
      if (strip.at >= n) break;
      const int64_t valid = std::min(strip.width, n - strip.at), vectors = ceil_div(valid, S::kWidth);
      out.tail = static_cast<int>(valid - (vectors - 1) * S::kWidth);
      if (bias != nullptr) out.bias = bias + strip.at;
      const TB* strip_b = b + (kDirectB ? strip.at : block_units * strip.at);
      for (int64_t i = 0; i < m; i += S::kTileRows) {
        const Tile<TB> of_tile =
            Tiles<S, kRowsOfA, kDirectB, TB>::of(std::min<int64_t>(S::kTileRows, m - i), vectors);
        out.c = c + i * out.ldc + strip.at;
        of_tile(units, kRowsOfA ? a + i * lda : a + i, lda, strip_b, kDirectB ? ldb : strip.width, out);
      }
    }
  }

  const GemmTask<T, TC>& t;
  const int64_t rows_of_b, columns_of_b;
  const int64_t depth, columns;
  const bool direct_a, direct_b;
  const float* packed_b = nullptr;
  float* sums_of_c = nullptr;
};
