// Types that the forward and the backward of attention share: one head's memory, a tile of queries,
// and the scores of a tile.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "core/memory/thread_buffer.h"
#include "ops/attention.h"
#include "ops/cpu/attention/score_rows.h"
#include "ops/cpu/gemm/gemm.h"
#include "ops/cpu/head_rows.h"

namespace vitrine::cpu {

/// The data on which the scores of one query head depend. S, here and below, is the type of q, k
/// and v in memory: float, double or bfloat16. Scores are computed in T = AccumulatorOf<S>.
template <class S>
struct AttentionHead {
  using T = AccumulatorOf<S>;
  AttentionForm form;
  int64_t queries, keys, size;
  HeadRows<S> q, k;
  T slope = 0;
  const T* bias = nullptr;  // [Tq, Tk] with these strides
  int64_t bias_row = 0, bias_column = 0;
  const bool* allowed = nullptr;
  int64_t allowed_row = 0, allowed_column = 0;

  AttentionHead(const AttentionForm& form, const Tensor& q, const Tensor& k, const Tensor& bias,
                const Tensor& slopes, const Tensor& allowed, int64_t batch, int64_t head);

  int64_t position(int64_t i) const { return i + keys - queries; }
  /// Query i sees keys [first_key(i), last_key(i)) by causality and window.
  int64_t first_key(int64_t i) const { return std::clamp<int64_t>(position(i) - form.left, 0, keys); }
  int64_t last_key(int64_t i) const {
    const int64_t right = form.causal ? std::min<int64_t>(form.right, 0) : form.right;
    return std::clamp<int64_t>(position(i) + right + 1, 0, keys);
  }
  bool hides(int64_t i, int64_t j) const {
    return allowed != nullptr && !allowed[i * allowed_row + j * allowed_column];
  }
  /// Whether query i may give a weight to key j, which is visible by position: neither the mask nor
  /// a bias of −∞ hides it.
  bool may_weigh(int64_t i, int64_t j) const {
    return !hides(i, j) &&
           (bias == nullptr || bias[i * bias_row + j * bias_column] != -std::numeric_limits<T>::infinity());
  }
};

constexpr int64_t queries_per_tile(int64_t queries) { return queries <= 128 ? 32 : kMostQueries; }

/// Queries [begin, end) of a head, and the keys [first, last) that any of these queries sees.
struct QueryTile {
  int64_t begin, end, first, last;
  int64_t rows() const { return end - begin; }
  /// The number of keys in the tile's largest block; and the distance between rows of a block of
  /// scores, in elements. The distance is a cache line more than whole vectors, because rows at a
  /// power of two would fall into few sets of the cache.
  int64_t keys() const { return std::clamp<int64_t>(last - first, 0, kKeysPerBlock); }
  int64_t stride() const { return (keys() + 15) / 16 * 16 + 16; }
};

/// The buffers that a thread keeps from tile to tile.
enum class Use {
  scores,
  slope_of_cap,
  dscores,
  weights,          // scores rounded to 16 bits,
  rounded_dscores,  // and their gradients
  values,
  products,
  exact,
  sums,  // of the forward, or the gradient of a tile's queries
  key_gradients,
  value_gradients,
  packed_keys,  // for q·kᵀ and ds·k,
  packed_key_rows,
  packed_values,   // for dy·vᵀ and P·v,
  packed_queries,  // and a tile's rows for dsᵀ·q and Pᵀ·dy
  packed_cotangents
};
using detail::thread_buffer;

inline int64_t tiles_of(int64_t queries) {
  return (queries + queries_per_tile(queries) - 1) / queries_per_tile(queries);
}

template <class S>
QueryTile query_tile(const AttentionHead<S>& head, int64_t number) {
  const int64_t height = queries_per_tile(head.queries), begin = number * height;
  const int64_t end = std::min(begin + height, head.queries);
  return {begin, end, head.first_key(begin), head.last_key(end - 1)};
}

/// The keys [j, j + n) that query i sees by causality and window, as columns of a block.
template <class S>
Visible visible(const AttentionHead<S>& head, int64_t i, int64_t j, int64_t n) {
  return {std::clamp<int64_t>(head.first_key(i) - j, 0, n), std::clamp<int64_t>(head.last_key(i) - j, 0, n)};
}

/// Whether a query of the tile sees one of the keys [j, j + n). Only the mask is read: blocks that
/// causality or a window hides are not in the tile.
template <class S>
bool sees_any(const AttentionHead<S>& head, const QueryTile& tile, int64_t j, int64_t n) {
  if (head.allowed == nullptr) return true;
  for (int64_t i = tile.begin; i < tile.end; ++i) {
    const Visible seen = visible(head, i, j, n);
    if (seen.begin >= seen.end) continue;
    if (head.allowed_column == 1) {
      const bool* const first = head.allowed + i * head.allowed_row + j + seen.begin;
      if (std::memchr(first, 1, static_cast<size_t>(seen.end - seen.begin)) != nullptr) return true;
      continue;
    }
    for (int64_t c = seen.begin; c < seen.end; ++c)
      if (!head.hides(i, j + c)) return true;
  }
  return false;
}

/// Turns products q·kᵀ·scale into scores [rows, n], with rows `stride` apart, for queries [i, i +
/// rows) and keys [j, j + n): capped, biased, and −∞ if the mask hides the key. `slope_of_cap` (may
/// be null) receives the derivative 1 − tanh² of the softcap.
template <class S>
void finish_scores(const AttentionHead<S>& head, int64_t i, int64_t rows, int64_t j, int64_t n,
                   AccumulatorOf<S>* scores, int64_t stride, AccumulatorOf<S>* slope_of_cap = nullptr);

/// The visible columns of each row of a tile, for keys [j, j + n).
class VisibleRows {
 public:
  template <class S>
  VisibleRows(const AttentionHead<S>& head, const QueryTile& tile, int64_t j, int64_t n)
      : at_{tile.rows(), n, tile.stride(), nullptr} {
    at_.seen = rows_.data();
    for (int64_t r = 0; r < tile.rows(); ++r)
      rows_[static_cast<size_t>(r)] = visible(head, tile.begin + r, j, n);
  }
  VisibleRows(const VisibleRows&) = delete;
  VisibleRows& operator=(const VisibleRows&) = delete;
  operator const ScoreRows&() const { return at_; }

 private:
  std::array<Visible, kMostQueries> rows_;
  ScoreRows at_;
};

/// The anchors c and δ of LASER, one of each channel (ops/cpu/attention/rows.h).
template <class T>
struct LaserAnchors {
  std::vector<T> anchor, delta;
  T range = 0;        ///< the largest distance between two values of a channel; infinite for NaN
  bool wide = false;  ///< δ is 0 in a channel

  /// δ, or null if it is 1 in every channel.
  const T* deltas() const { return wide ? delta.data() : nullptr; }
  /// The channels whose sums Σ a·F for a query are too small to be accurate, because their values
  /// are too far apart.
  std::vector<int64_t> out_of_range(const T* sums, int64_t keys) const;
};

/// The anchors of LASER for a tile, and the values F that the attention weights multiply.
template <class S>
class LaserTile {
  using T = AccumulatorOf<S>;

 public:
  LaserTile(const AttentionHead<S>& head, const QueryTile& tile, HeadRows<S> v, int64_t channels);
  /// F of keys [j, j + n), with rows `channels` apart; 0 for keys that no query of the tile sees.
  const S* values(int64_t j, int64_t n);
  const LaserAnchors<T>& anchors() const { return anchors_; }

 private:
  HeadRows<S> v_;
  int64_t channels_, first_;
  std::vector<bool> seen_;  // keys from first_ on; empty means all
  LaserAnchors<T> anchors_;
};

/// The anchors of LASER for all tiles of a head, and F of all its keys, which are then computed and
/// packed once, as the values of a mean are. Only for heads whose keys are packed and whose values
/// in a channel are within kShared of each other, because a query loses precision to values that it
/// does not see; and without a mask or a bias, which can hide a key from all queries.
template <class S>
class LaserHead {
  using T = AccumulatorOf<S>;
  static constexpr double kShared = 16;

 public:
  /// Refers to the values v of a head from now on.
  void refer_to(const AttentionHead<S>& head, HeadRows<S> v, int64_t channels);
  bool is_shared() const { return shared_; }
  /// F of all keys. It is in the thread's buffer for values, so only one object of a type may be in
  /// use on a thread.
  HeadRows<S> values() const { return values_; }
  const LaserAnchors<T>& anchors() const { return anchors_; }
  /// From the gradients of F to those of the values: dv ← dv·(F + δ).
  void finish_value_gradients(HeadRows<T> dv) const;

 private:
  bool shared_ = false;
  int64_t seen_ = 0;  // the number of keys that a query sees
  HeadRows<S> values_{};
  LaserAnchors<T> anchors_;
};

/// An element of LASER's output that the tile's anchor cannot represent: query i, a channel, and
/// total = Σ e^(s + v − largest).
template <class T>
struct ExactRead {
  int64_t i, channel;
  T largest, total;
};
/// Computes those channels of query i from all keys that the query sees.
template <class S>
std::vector<ExactRead<AccumulatorOf<S>>> read_exactly(const AttentionHead<S>& head, int64_t i,
                                                      const std::vector<int64_t>& channels, HeadRows<S> v);

}  // namespace vitrine::cpu
