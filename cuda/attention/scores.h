// The arguments of attention's kernels: the operands, and the computation of a score from q·k.
#pragma once

#include "core/math.h"
#include "cuda/attention/products.h"
#include "cuda/strided.h"
#include "ops/kernels.h"

namespace vitrine::cuda {

/// Computes scores from products q·k. After of_head(), for one head.
template <class T>
struct Scores {
  int queries, keys;
  T scale, softcap;
  int64_t left, right;  // of the query's position: keys further away are hidden
  Heads<T> bias;
  Heads<bool> allowed;
  const T* slopes;
  T slope = 0;

  static Scores of(const Tensor& q, const Tensor& k, const Tensor& bias, const Tensor& slopes,
                   const Tensor& allowed, const AttentionForm& form) {
    return {static_cast<int>(q.size(2)),
            static_cast<int>(k.size(2)),
            static_cast<T>(form.scale),
            static_cast<T>(form.softcap),
            form.left,
            form.causal && form.right > 0 ? 0 : form.right,
            Heads<T>::of(bias),
            Heads<bool>::of(allowed),
            slopes.defined() ? slopes.data<T>() : nullptr};
  }

  __device__ Scores of_head(int b, int h) const {
    Scores s = *this;
    if (bias.data != nullptr) s.bias.data = bias.rows(b, h).data;
    if (allowed.data != nullptr) s.allowed.data = allowed.rows(b, h).data;
    if (slopes != nullptr) s.slope = slopes[h];
    return s;
  }
  __device__ static int clamp(int64_t x, int most) {
    return static_cast<int>(x < 0 ? 0 : x > most ? most : x);
  }
  __device__ int position(int i) const { return i + keys - queries; }
  /// The keys [first, last) that query i sees if the mask allows them, and the queries [first,
  /// last) that see key j.
  __device__ int first_key(int i) const { return clamp(position(i) - left, keys); }
  __device__ int last_key(int i) const { return clamp(position(i) + right + 1, keys); }
  __device__ int first_query(int j) const { return clamp(j - right + queries - keys, queries); }
  __device__ int last_query(int j) const { return clamp(j + left + 1 + queries - keys, queries); }
  __device__ bool sees(int i, int j) const {
    return i < queries && j >= first_key(i) && j < last_key(i) && is_allowed(i, j);
  }
  __device__ bool is_allowed(int i, int j) const {
    return allowed.data == nullptr || allowed.data[i * allowed.row + j * allowed.column];
  }
  /// Whether query i may give key j a weight: the query sees the key, and the bias is not −∞.
  __device__ bool may_weigh(int i, int j) const {
    return sees(i, j) &&
           (bias.data == nullptr || bias.data[i * bias.row + j * bias.column] != -static_cast<T>(INFINITY));
  }
  /// Whether no query of [i, i_end) sees a key of [j, j_end), even without the mask.
  __device__ bool hides_all(int i, int i_end, int j, int j_end) const {
    return j >= last_key(i_end - 1) || j_end <= first_key(i);
  }
  /// Whether all scores of these queries and keys are scale·q·k.
  __device__ bool is_plain(int i, int i_end, int j, int j_end) const {
    return i_end <= queries && j >= first_key(i_end - 1) && j_end <= last_key(i) && softcap == T(0) &&
           allowed.data == nullptr && bias.data == nullptr && slopes == nullptr;
  }

  /// The score from q·k; −∞ if the key is hidden. `slope_of_cap` becomes the derivative of the
  /// softcap.
  __device__ T score(T product, int i, int j, T* slope_of_cap = nullptr) const {
    if (!sees(i, j)) return -static_cast<T>(INFINITY);
    T s = product * scale;
    if (softcap > T(0)) {
      const T t = math::tanh(s / softcap);
      if (slope_of_cap != nullptr) *slope_of_cap = T(1) - t * t;
      s = softcap * t;
    }
    if (bias.data != nullptr) s += bias.data[i * bias.row + j * bias.column];
    if (slopes != nullptr) s -= slope * static_cast<T>(math::abs(static_cast<T>(j - position(i))));
    return s;
  }
};

/// The arguments of every kernel of attention.
template <class S>
struct AttentionInputs {
  Heads<S> q, k, v;
  Scores<AccumulatorOf<S>> scores;
  int size, channels;  // of a query or key, and of a value
  int group;           // query heads per key head
  int tile;            // queries of a tile; LASER has anchors per tile
  bool laser;
  const int* near = nullptr;  // done by Hopper's kernels (cuda/attention/laser_operands.h)
};

/// The tile of queries of this block. The last tiles come first: with causality they see the most
/// keys, and the longest work should begin first.
__device__ inline int tile_of_queries() { return static_cast<int>(gridDim.x - 1 - blockIdx.x); }

inline constexpr int kMostHeadSize = 256;
/// Warps of a block: two such blocks fit into the registers of a multiprocessor.
inline constexpr int kAttentionWarps = 4, kAttentionThreads = kAttentionWarps * static_cast<int>(kWarp);
/// Blocks of the other side in shared memory. With two, the next block is loaded while the present
/// block is multiplied.
template <class S>
inline constexpr int kStages = kTensorCores<S> ? 2 : 1;
/// A thread's registers have room for this number of result accumulators of 16 rows. float64 keeps
/// the accumulators in memory, and its loops are not unrolled.
inline constexpr int kMostAccumulators = kMostHeadSize / kAccumulatorColumns;
template <class S>
inline constexpr int kUnrolled = sizeof(S) == 8 ? 1 : kMostAccumulators;

}  // namespace vitrine::cuda
