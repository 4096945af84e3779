// Positions for attention: rotations, ALiBi slopes, and sinusoids.
#pragma once

#include "core/tensor.h"

namespace vitrine::nn {

/// Which channels are rotated as a pair, and how fast.
struct RotaryOptions {
  double base = 10000;       ///< the slowest pair turns by about 1/base per position
  int64_t size = 0;          ///< the first channels that are rotated, even; 0 = all
  bool interleaved = false;  ///< pairs (x_2i, x_2i+1) in place of (x_i, x_i+size/2)
  /// For sequences that are longer than those of the training. `linear` divides all positions (Chen
  /// et al. 2023). `ntk` raises the base, so that the slowest pair turns slower by this factor and
  /// the fastest turns as before (bloc97 2023).
  double linear = 1, ntk = 1;
};

/// Rotates pair i of the channels of x [.., T, D] by the angle whose cosine and sine are in the
/// tables [.., T, size/2], which broadcast. Use this for scaled rotary embeddings and for positions
/// that differ within a batch. `base`, `linear` and `ntk` are not used.
Tensor rotate(const Tensor& x, const Tensor& cosine, const Tensor& sine, const RotaryOptions& options = {});
/// The same with the angle position/linear·b^(−2i/size), where b = base·ntk^(size/(size − 2)).
/// positions: int64 [T]; the CPU reads them, so a GPU is synchronized. Su et al. 2021.
Tensor rotate(const Tensor& x, const Tensor& positions, const RotaryOptions& options = {});
/// The same for the positions first, first + 1, …
Tensor rotate(const Tensor& x, int64_t first, const RotaryOptions& options = {});

/// Where the rows of a tensor [B, H, T, D] are: item i of row b is at position first + i −
/// start[b]. Items before the start of a row are padding.
struct RowPositions {
  int64_t first = 0;
  Tensor start = {};  ///< int64 [B]; undefined: 0
};
/// The same for these positions.
Tensor rotate(const Tensor& x, const RowPositions& at, const RotaryOptions& options = {});

/// [H] in float64, read-only: 2^(−8(i + 1)/H). If H is not a power of two: the slopes for the next
/// lower power of two, then every other slope of twice that power. Press, Smith, Lewis 2021.
Tensor alibi_slopes(int64_t heads, Device device = Device::cpu);

/// [Tq, Tk]: the distance |i + Tk − Tq − j| of query i and key j. The last query is aligned with
/// the last key.
Tensor position_distances(int64_t queries, int64_t keys, DType dtype = DType::int64,
                          Device device = Device::cpu);

/// How relative positions are sorted into buckets.
struct RelativeBuckets {
  int64_t count = 32;          ///< even; at least 4 if `bidirectional`, else 2
  int64_t max_distance = 128;  ///< all distances from here on share a bucket
  bool bidirectional = true;   ///< the upper half of the buckets is for keys after the query
};
/// The bucket of a key at the position of the query + relative. The first half of the buckets of a
/// direction has one distance each, the second half grows by a constant factor up to max_distance.
/// If the buckets are not bidirectional, a key after the query has distance 0. The logarithm is
/// computed in float32, as in the original. Raffel et al. 2020.
int64_t relative_bucket(int64_t relative, const RelativeBuckets& buckets = {});

/// [count, width]: sin(p·base^(−2i/width)) in the even channels and the cosine in the odd channels,
/// for the positions p = first, first + 1, … Vaswani et al. 2017.
Tensor sinusoidal_positions(int64_t count, int64_t width, double base = 10000, int64_t first = 0,
                            DType dtype = DType::float32, Device device = Device::cpu);

}  // namespace vitrine::nn
