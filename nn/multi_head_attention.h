// Projections to queries, keys and values, any attention over the heads, and the projection back.
#pragma once

#include <functional>
#include <string>

#include "nn/attention/attention.h"
#include "nn/layers.h"

namespace vitrine::nn {

struct MultiHeadOptions {
  int64_t width = 128;  ///< C
  int64_t heads = 4;
  int64_t key_heads = 0;  ///< fewer than heads: grouped queries; 0 = heads
  int64_t context = 64;   ///< the longest sequence
  std::string attention = "standard";
  Bias bias = Bias::yes;
  double out_deviation = 0.02;  ///< of the initial weights of the projection back
};

/// Keys and values that decoding need not compute again, in memory for `capacity` positions.
class KeyValueCache {
 public:
  explicit KeyValueCache(int64_t capacity = 0) : capacity_(capacity) {}
  int64_t size() const { return size_; }
  /// Appends k and v [B, Hkv, T, D] and returns all so far, as views. Not differentiable: an error while a tape records.
  std::pair<Tensor, Tensor> append(const Tensor& k, const Tensor& v);

 private:
  int64_t capacity_, size_ = 0;
  Tensor k_, v_;
};

class MultiHeadAttention : public Module {
 public:
  explicit MultiHeadAttention(const MultiHeadOptions& options);
  /// x [B, T, C] → [B, T, C]. With a cache, x continues what the cache holds.
  Tensor forward(const Tensor& x, const AttentionMask& mask, KeyValueCache* cache = nullptr,
                 AttentionTrace* trace = nullptr) const;
  /// Queries from x [B, T, C], keys and values from source [B, S, C].
  Tensor cross(const Tensor& x, const Tensor& source, const AttentionMask& mask,
               AttentionTrace* trace = nullptr) const;
  void fields(Fields& f) override;
  MultiHeadAttention clone();

  Linear query_key_value, out;
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
