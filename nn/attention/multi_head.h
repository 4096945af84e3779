// Projections to queries, keys and values, any attention over the heads, and the projection back.
#pragma once

#include <functional>
#include <string>

#include "nn/attention/attention.h"
#include "nn/layers/linear.h"

namespace vitrine::nn {

/// Sizes and parts of a MultiHeadAttention; those that do not fit each other are an error.
struct MultiHeadOptions {
  int64_t width = 128;                 ///< C, a multiple of heads
  int64_t heads = 4;                   ///< H
  int64_t key_heads = 0;               ///< Hkv, a divisor of heads: grouped queries; 0 = heads
  int64_t context = 64;                ///< the longest sequence, for scales that depend on it
  std::string attention = "standard";  ///< parts joined by +, see parse_attention
  Bias bias = Bias::yes;               ///< of all projections
  double out_deviation = 0.02;         ///< of the initial weights of the projection back
};

/// Keys and values that decoding need not compute again, in memory for `capacity` positions; more are an error.
class KeyValueCache {
 public:
  explicit KeyValueCache(int64_t capacity = 0) : capacity_(capacity) {}  ///< 0: as much as is appended
  int64_t size() const { return size_; }                                 ///< positions so far
  /// Appends k and v [B, Hkv, T, D] and returns all so far, as views. Not differentiable: an error while a tape records.
  std::pair<Tensor, Tensor> append(const Tensor& k, const Tensor& v);

 private:
  int64_t capacity_, size_ = 0;
  Tensor k_, v_;
};

/// [q, k, v] = x·Wᵀ + b, split into heads; y = attention(q, k, v); heads side by side through `out`. Weights start as
/// N(0, 0.02²), those of `out` by out_deviation. Vaswani et al. 2017.
class MultiHeadAttention : public Module {
 public:
  explicit MultiHeadAttention(const MultiHeadOptions& options);
  /// x [B, T, C] → [B, T, C]. With a cache, x continues what the cache holds.
  Tensor forward(const Tensor& x, const AttentionMask& mask, KeyValueCache* cache = nullptr,
                 AttentionTrace* trace = nullptr) const;
  /// Queries from x [B, T, C], keys and values from source [B, S, C]. Key j is at position j and query i at position
  /// i + S − T, for rotary positions as for ALiBi and masks: the last query is aligned with the last key.
  Tensor cross(const Tensor& x, const Tensor& source, const AttentionMask& mask,
               AttentionTrace* trace = nullptr) const;
  void fields(Fields& f) override;
  MultiHeadAttention clone();

  Linear query_key_value, out;  ///< [C + 2·Hkv·D, C] and [C, C]
  Attention attention;
  /// Called in every pass with the projected queries, keys and values, to hook their gradients, say. Where a checkpoint runs
  /// its function again this is called again, while that second run's tape records.
  std::function<void(const Tensor& q, const Tensor& k, const Tensor& v)> on_projected;

 private:
  Tensor merge(const Tensor& y) const;

  MultiHeadOptions options_;
  int64_t heads_, key_heads_, head_size_;
};

}  // namespace vitrine::nn
