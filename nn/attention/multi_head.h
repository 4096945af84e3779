// Projections to queries, keys and values, any attention over the heads, and the projection back.
#pragma once

#include <functional>
#include <string>

#include "nn/attention/names.h"
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
  std::unique_ptr<Attention> attention;
  /// Called in every pass with the projected queries, keys and values, to hook their gradients, say. Where a checkpoint runs
  /// its function again this is called again, while that second run's tape records.
  std::function<void(const Tensor& q, const Tensor& k, const Tensor& v)> on_projected;

 private:
  /// From projected queries, keys and values to the output.
  Tensor attend(const std::vector<Tensor>& qkv, const AttentionMask& mask, KeyValueCache* cache,
                AttentionTrace* trace) const;

  MultiHeadOptions options_;
  int64_t heads_, key_heads_, head_size_;
};

}  // namespace vitrine::nn
