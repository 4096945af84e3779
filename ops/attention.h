// Scaled dot product attention as one op that never keeps the weights: softmax(q·kᵀ·scale)·v, tile
// by tile.
#pragma once

#include <cstdint>

#include "core/tensor.h"

namespace vitrine {

/// What the values are averaged by: Σ a·v, or LASER's log Σ a·eᵛ (Duvvuri, Dhillon 2024).
enum class AttentionRead { mean, laser };

/// LASER sums e^(v − anchor). The anchor of a channel is about the middle of values that lie within
/// kLaserNear of each other, and about the least of those within kLaserFar; others are too far
/// apart for one anchor.
inline constexpr double kLaserNear = 2, kLaserFar = 60;

/// Numbers that fix an attention. Query i stands at position i + (Tk − Tq): the last query is
/// aligned with the last key.
struct AttentionForm {
  static constexpr int64_t kUnlimited = INT64_MAX / 4;
  double scale = 0;            ///< factor of q·k; 0: 1/√D. With D = 0 all q·k are 0
  bool causal = false;         ///< keys after the query's position (the future) are hidden
  int64_t left = kUnlimited;   ///< a window: keys more than this before the position are hidden
  int64_t right = kUnlimited;  ///< and those more than this after it
  double softcap = 0;          ///< c: the scores become c·tanh(s/c); 0: none
  AttentionRead read = AttentionRead::mean;
};

/// And tensors that the scores depend on; undefined where there are none.
struct AttentionOptions : AttentionForm {
  /// Added to the scores after the softcap, broadcast to [B, H, Tq, Tk]. One that has a gradient
  /// takes the definition, with all weights.
  Tensor bias = {};
  Tensor slopes = {};   ///< [H], constants: ALiBi adds −slope·|distance|
  Tensor allowed = {};  ///< bool, false = hidden, broadcast to [B, H, Tq, Tk]
};

/// q [B, H, Tq, D], k [B, Hkv, Tk, D], v [B, Hkv, Tk, Dv] → [B, H, Tq, Dv], a view of a contiguous
/// [B, Tq, H, Dv]. Head h reads key head h/(H/Hkv). A query that sees no key gives 0, and gradients
/// 0. Saves log Σ e^s per query and y (in 16 bits on a GPU also what rounding took from it; in
/// place of y LASER's sums, on a GPU their logarithm or y in float32 at least); the backward
/// computes the weights again. LASER anchors each channel by the range of the values that a tile of
/// queries sees, on some GPUs of the blocks of keys that it meets, and reads elements out of that
/// range exactly. Hidden keys with finite values change no bit of a mean; what one query of a tile
/// sees can change how LASER rounds another. An infinite or NaN value, though hidden, makes a mean
/// NaN (0·∞); NaN does so to LASER on a GPU. There heads of more than 256 channels keep the
/// weights, and are slow. Dao et al. 2022.
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options = {});

namespace detail {
/// The errors of attention(), for those that compute it in other ways.
void check_attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options);
}  // namespace detail

namespace define {  // the same functions in simpler ops: what tests and higher derivatives use
/// Keeps the weights [B, H, Tq, Tk]; LASER as log Σ e^(s + v) − log Σ e^s, over a tensor [B, H, Tq,
/// Tk, Dv].
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options);
/// Each key head of [B, Hkv, Tk, D] as often as query heads read it: [B, H, Tk, D]. H has to be a
/// multiple of Hkv.
Tensor repeat_key_heads(const Tensor& x, int64_t heads);
/// What ALiBi adds to the scores: −slope·|j − position of i|, [H, Tq, Tk].
Tensor alibi_bias(const Tensor& slopes, int64_t queries, int64_t keys, DType dtype);
}  // namespace define

}  // namespace vitrine
