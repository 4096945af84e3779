// Scaled dot-product attention as one op: softmax(q·kᵀ·scale)·v, computed tile by tile, so that the
// weights are never stored.
#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor.h"

namespace vitrine {

/// How the values are combined: mean is Σ a·v; laser is log Σ a·eᵛ (Duvvuri, Dhillon 2024).
enum class AttentionRead { mean, laser };

/// LASER sums e^(v − anchor). If the values of a channel are within kLaserNear of each other, the
/// channel's anchor is about their middle. If they are within kLaserFar, it is about their minimum.
/// Values further apart are too far for one anchor.
inline constexpr double kLaserNear = 2, kLaserFar = 60;

/// The numbers that determine an attention. Query i has the position i + (Tk − Tq): the last query
/// is aligned with the last key.
struct AttentionForm {
  static constexpr int64_t kUnlimited = INT64_MAX / 4;
  double scale = 0;            ///< factor of q·k; 0 means 1/√D. With D = 0 all q·k are 0
  bool causal = false;         ///< keys after the query's position (the future) are hidden
  int64_t left = kUnlimited;   ///< window: keys more than this before the position are hidden
  int64_t right = kUnlimited;  ///< window: keys more than this after the position are hidden
  int64_t first = 0;           ///< window: `left` never hides the first keys, as many as this
  double softcap = 0;          ///< c: the scores become c·tanh(s/c); 0 means no softcap
  AttentionRead read = AttentionRead::mean;
};

/// The form, and the tensors on which the scores depend; undefined tensors are not used.
struct AttentionOptions : AttentionForm {
  /// Added to the scores after the softcap, broadcast to [B, H, Tq, Tk]. If a bias has a gradient,
  /// the backward stores the gradients of all scores.
  Tensor bias = {};
  Tensor slopes = {};   ///< [H], constants: ALiBi adds −slope·|distance|
  Tensor allowed = {};  ///< bool, false = hidden, broadcast to [B, H, Tq, Tk]
  /// [H]: the score of a sink, a key that every query sees and whose value is 0. It takes weight
  /// from the other keys: p_j = e^{s_j}/(e^sink + Σ_k e^{s_k}). For the mean only. Miller 2023.
  Tensor sink = {};
};

/// What attention reads, y [B, H, Tq, Dv], and log Σ e^score of each query, [B, H, Tq], in float32
/// or wider. A query that sees no key has −∞.
struct AttentionResult {
  Tensor y, log_sum_exp;
  std::vector<Tensor> tensors() const { return {y, log_sum_exp}; }
};

/// q [B, H, Tq, D], k [B, Hkv, Tk, D], v [B, Hkv, Tk, Dv] → [B, H, Tq, Dv], a view of a contiguous
/// [B, Tq, H, Dv]. Head h reads key head h/(H/Hkv). A query that sees no key gives 0, and gradients
/// 0. Saves log Σ e^s per query and y (in 16 bits on a GPU, also y's rounding error; for LASER,
/// instead of y, its sums or, on a GPU, their logarithm or y, in float32 or wider). The backward
/// computes the weights again. LASER anchors each channel by the range of the values of a head if
/// they are within 16 of each other, else by that of the values that a tile of queries sees, or on
/// some GPUs by that of each block of keys. It reads elements outside that range exactly. Hidden
/// keys with finite values do not change a bit of a mean, but they can change LASER's rounding. An
/// infinite or NaN value, even if hidden, may make a mean NaN (0·∞); a NaN does the same to LASER
/// on a GPU. On a CPU, blocks of keys that `allowed` hides from a whole tile of queries are
/// skipped. On a GPU, heads of more than 256 channels store the weights, and are slow. Dao et al.
/// 2022.
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options = {});
/// The same with log Σ e^score, which has a gradient too. It merges attentions to two sets of keys:
/// the results are averaged with weights in the ratio of e^log_sum_exp. Errors: a sink.
AttentionResult attention_with_log_sum_exp(const Tensor& q, const Tensor& k, const Tensor& v,
                                           const AttentionOptions& options = {});

namespace detail {
/// The argument checks of attention(), for functions that compute it in other ways.
void check_attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options);
}  // namespace detail

namespace define {  // the same functions in simpler ops, for tests and higher derivatives
/// Stores the weights [B, H, Tq, Tk]. LASER is log Σ e^(s + v) − log Σ e^s, over a tensor [B, H,
/// Tq, Tk, Dv].
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options);
AttentionResult attention_with_log_sum_exp(const Tensor& q, const Tensor& k, const Tensor& v,
                                           const AttentionOptions& options);
/// Repeats each key head of [B, Hkv, Tk, D] for the query heads that read it: [B, H, Tk, D]. H must
/// be a multiple of Hkv.
Tensor repeat_key_heads(const Tensor& x, int64_t heads);
/// ALiBi's addition to the scores, −slope·|j − position of i|, [H, Tq, Tk].
Tensor alibi_bias(const Tensor& slopes, int64_t queries, int64_t keys, DType dtype);
}  // namespace define

}  // namespace vitrine
