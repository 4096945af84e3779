// The product of bfloat16 matrices on tiles, for real and for emulated tiles (amx_tiles-inl.h).
// Included by amx.cpp after avx512_pairs-inl.h and blocked-inl.h.
//
// The loops are those of blocked-inl.h with other sizes:
//
//   for each block of columns                   B block [384, 768] is packed, and stays in L2
//     for each block of 384 or less in K
//       for each panel of 32 rows               A panel [32, 384] is packed, and stays in L1
//         for each panel of 32 columns          four tiles of sums: 32 by 32
//           for each 32 of K                    two tiles of A times two tiles of B
//
// A strip is 16 rows of A, or 16 columns of B, over a block of K. A packed strip is a row of whole
// tiles, padded with 0. Panels have two strips, the last may have one.
//
// If K has several blocks, the sums of a panel wait in memory between them, tile by tile. A sum
// grows by 32 products at a time, in ascending k. Blocks, shapes and threads do not change this
// order, so they do not change the bits.
#pragma once

/// One tile of a packed strip. `x` points to the element of the strip's first row (or column) at
/// the tile's first k. `valid` rows and `depth` elements of K exist. kAlongK: neighbours in K are
/// neighbours in memory. kByPair: a line of the tile has one pair of all rows, as B needs it;
/// otherwise a line is one row, as A needs it.
template <bool kAlongK, bool kByPair>
void pack_tile(const bfloat16* x, int64_t ldx, int64_t valid, int64_t depth, float* to) {
  using S = Avx512Pairs;
  S::V line[16];
  for (int64_t i = 0; i < 16; ++i) {
    line[i] = S::zero();
    if constexpr (kAlongK) {
      if (i >= valid) continue;
      line[i] = S::load_units_partial(x + i * ldx, depth);
      // 16 rows at once are too many streams for the hardware prefetcher.
      __builtin_prefetch(x + i * ldx + 4 * kTileK);
    } else if (2 * i < depth) {
      const bfloat16* first = x + 2 * i * ldx;
      line[i] = S::load_columns_partial(first, 2 * i + 1 < depth ? first + ldx : nullptr, valid);
    }
  }
  if constexpr (kAlongK == kByPair) S::transpose(line);
  for (int64_t i = 0; i < 16; ++i) S::store(to + i * kPairs, line[i]);
}

/// Packs `rows` rows of A (or columns of B) over `depth` elements of K, strip by strip. Memory is
/// read from its beginning to its end.
template <bool kAlongK, bool kByPair>
void pack_strips(const bfloat16* x, int64_t ldx, int64_t rows, int64_t depth, float* to) {
  const int64_t strips = ceil_div(rows, kTileRows), steps = ceil_div(depth, kTileK);
  const auto pack = [&](int64_t strip, int64_t step) {
    const int64_t row = strip * kTileRows, k = step * kTileK;
    pack_tile<kAlongK, kByPair>(x + (kAlongK ? row * ldx + k : k * ldx + row), ldx,
                                std::min<int64_t>(kTileRows, rows - row),
                                std::min<int64_t>(kTileK, depth - k), to + (strip * steps + step) * kTile);
  };
  for (int64_t i = 0; i < (kAlongK ? strips : steps); ++i)
    for (int64_t j = 0; j < (kAlongK ? steps : strips); ++j) kAlongK ? pack(i, j) : pack(j, i);
}

/// R strips of A times C strips of B over `steps` tiles of K. Strips of B are `strip_b` apart.
/// Tiles 0 to 3 hold the sums, 4 and 5 two tiles of A, 6 and 7 two tiles of B. The sums start at 0
/// or (`more`) where `sums` left off.
template <int R, int C, class Tiles>
void multiply_strips(Tiles& tiles, int64_t steps, const float* a, const float* b, int64_t strip_b, bool more,
                     float* sums) {
  const int64_t strip = steps * kTile;
  if (more) {
    tiles.template load<0>(sums);
    if constexpr (C == 2) tiles.template load<1>(sums + kTile);
    if constexpr (R == 2) tiles.template load<2>(sums + 2 * kTile);
    if constexpr (R == 2 && C == 2) tiles.template load<3>(sums + 3 * kTile);
  } else {
    tiles.template zero<0>();
    if constexpr (C == 2) tiles.template zero<1>();
    if constexpr (R == 2) tiles.template zero<2>();
    if constexpr (R == 2 && C == 2) tiles.template zero<3>();
  }
  for (int64_t step = 0; step < steps; ++step, a += kTile, b += kTile) {
    tiles.template load<4>(a);
    tiles.template load<6>(b);
    tiles.template multiply<0, 4, 6>();
    if constexpr (C == 2) {
      tiles.template load<7>(b + strip_b);
      tiles.template multiply<1, 4, 7>();
    }
    if constexpr (R == 2) {
      tiles.template load<5>(a + strip);
      tiles.template multiply<2, 5, 6>();
    }
    if constexpr (R == 2 && C == 2) tiles.template multiply<3, 5, 7>();
  }
  tiles.template store<0>(sums);
  if constexpr (C == 2) tiles.template store<1>(sums + kTile);
  if constexpr (R == 2) tiles.template store<2>(sums + 2 * kTile);
  if constexpr (R == 2 && C == 2) tiles.template store<3>(sums + 3 * kTile);
}

/// One product by one thread.
template <class Tiles, class TC>
class TileProduct {
  using T = bfloat16;
  using S = Avx512Pairs;
  static constexpr int64_t kPanel = 2 * kTileRows;  // rows of A, or columns of B
  static constexpr int64_t kSums = 4 * kTile;       // of a panel of A times a panel of B

 public:
  explicit TileProduct(const GemmTask<T, TC>& task)
      : t(task),
        rows_of_b(t.packed != nullptr ? t.packed_rows : t.K),
        columns_of_b(t.packed != nullptr ? t.packed_columns : t.N),
        depth(even_block(rows_of_b, kAmxBlock.depth, kTileK)),
        columns(even_block(columns_of_b, kAmxBlock.columns, kPanel)) {}

  void run() {
    for (int64_t j = 0; j < t.N; j += columns) {
      const int64_t n = std::min(columns, t.N - j);
      const int64_t waiting = depth >= t.K ? 1 : ceil_div(t.M, kPanel) * ceil_div(n, kPanel);
      all_sums = scratch(Scratch::c, waiting * kSums);
      // K = 0 still requires one pass, which writes beta · C + bias.
      int64_t k = 0;
      do {
        const int64_t d = std::min(depth, t.K - k);
        pack_b(j, n, k, d);
        for (int64_t i = 0; i < t.M; i += kPanel) panel(i, std::min(kPanel, t.M - i), j, n, k, d);
        k += d;
      } while (k < t.K);
    }
  }

  /// Packs all of B, block by block, in the order in which run() reads the blocks.
  void pack(float* to) const {
    for (int64_t j = 0; j < t.N; j += columns)
      for (int64_t k = 0; k < t.K; k += depth)
        pack_block(j, std::min(columns, t.N - j), k, std::min(depth, t.K - k), to + place_of(j, k));
  }

 private:
  /// The offset, in a B that is packed as a whole, of the block that begins at row k and column j.
  int64_t place_of(int64_t j, int64_t k) const {
    const int64_t strips = ceil_div(std::min(columns, columns_of_b - j), kTileRows);
    return (ceil_div(rows_of_b, kTileK) * (j / kTileRows) + k / kTileK * strips) * kTile;
  }

  void pack_block(int64_t j, int64_t n, int64_t k, int64_t d, float* to) const {
    const T* b = t.B + (t.tb == Trans::yes ? j * t.ldb + k : k * t.ldb + j);
    t.tb == Trans::yes ? pack_strips<true, true>(b, t.ldb, n, d, to)
                       : pack_strips<false, true>(b, t.ldb, n, d, to);
  }

  /// Parts of one call that have the same columns share what the thread has packed, as in
  /// blocked-inl.h.
  void pack_b(int64_t j, int64_t n, int64_t k, int64_t d) {
    if (t.packed != nullptr) {
      packed_b = t.packed + place_of(j, k);
      return;
    }
    struct Packed {
      uint64_t call;
      const void* at;
      int64_t columns, depth;
      bool operator==(const Packed&) const = default;
    };
    thread_local Packed packed;
    thread_local float* place;
    const T* b = t.B + (t.tb == Trans::yes ? j * t.ldb + k : k * t.ldb + j);
    const Packed wanted{t.call, b, n, d};
    packed_b = place;
    if (t.call != 0 && packed == wanted) return;
    packed = {};  // in case the allocation fails
    packed_b = place = scratch(Scratch::b, ceil_div(n, kTileRows) * ceil_div(d, kTileK) * kTile);
    packed = wanted;
    pack_block(j, n, k, d, place);
  }

  /// Rows [i, i + m) of columns [j, j + n), over the block of K that begins at k.
  void panel(int64_t i, int64_t m, int64_t j, int64_t n, int64_t k, int64_t d) {
    const int64_t steps = ceil_div(d, kTileK), strip = steps * kTile;
    // The block of B in memory may be deeper than the part of it that is used.
    const int64_t strip_b = ceil_div(std::min(depth, rows_of_b - k), kTileK) * kTile;
    float* a = scratch(Scratch::a, 2 * strip);
    t.ta == Trans::yes ? pack_strips<false, false>(t.A + k * t.lda + i, t.lda, m, d, a)
                       : pack_strips<true, false>(t.A + i * t.lda + k, t.lda, m, d, a);
    const bool last = k + d >= t.K, waits = depth < t.K;
    float* sums = all_sums + (waits ? i / kPanel * ceil_div(n, kPanel) * kSums : 0);
    for (int64_t c = 0; c < n; c += kPanel) {
      const float* b = packed_b + c / kTileRows * strip_b;
      const bool tall = m > kTileRows, wide = n - c > kTileRows;
      if (tall && wide)
        multiply_strips<2, 2>(tiles, steps, a, b, strip_b, k > 0, sums);
      else if (tall)
        multiply_strips<2, 1>(tiles, steps, a, b, strip_b, k > 0, sums);
      else if (wide)
        multiply_strips<1, 2>(tiles, steps, a, b, strip_b, k > 0, sums);
      else
        multiply_strips<1, 1>(tiles, steps, a, b, strip_b, k > 0, sums);
      if (last) write(sums, i, m, j + c, std::min(kPanel, n - c));
      if (waits) sums += kSums;
    }
    if (last) t.finish(i, m, j, n);
  }

  /// C = alpha · sums + beta · C + bias for rows [i, i + m) and columns [j, j + n) of a panel.
  void write(const float* sums, int64_t i, int64_t m, int64_t j, int64_t n) {
    const S::V alpha = S::set(t.alpha), beta = S::set(t.beta);
    for (int64_t r = 0; r < m; ++r) {
      for (int64_t c = 0; c < n; c += S::kWidth) {
        const int64_t valid = std::min<int64_t>(S::kWidth, n - c);
        const int64_t tile = r / kTileRows * 2 + c / S::kWidth;
        TC* to = t.C + (i + r) * t.ldc + j + c;
        S::V x = S::mul(alpha, S::load(sums + tile * kTile + r % kTileRows * kPairs));
        if (t.beta != 0) x = S::fma_float(beta, S::load_partial(to, valid), x);
        if (t.epilogue.bias != nullptr) x = S::add(x, S::load_partial(t.epilogue.bias + j + c, valid));
        S::store_partial(to, x, valid);
      }
    }
  }

  const GemmTask<T, TC>& t;
  const int64_t rows_of_b, columns_of_b;
  const int64_t depth, columns;
  const float* packed_b = nullptr;
  float* all_sums = nullptr;
  Tiles tiles;
};
