// Learned positions before a sequence. As memory tokens (Burtsev et al. 2020) a model may store in
// them what concerns the whole sequence. As a prompt (Lester et al. 2021) they are trained alone,
// while the model is frozen.
#pragma once

#include "nn/mixer.h"

namespace vitrine::nn {

/// M learned vectors before x. Any mixer, block or stack runs on the joined sequence, and the
/// vectors pass through it as other positions do:
///
///   MemoryTokens memory(10, width);
///   Tensor y = memory.rest(stack.forward(memory.before(x), {.mask = memory.before(mask, T)}));
///
/// Under a causal mask, they come first, so every position sees them and they see only each other.
/// In decoding, the first step has `before`, and later steps continue the state with x alone. With
/// all other parameters frozen (nn/layers/freeze.h) this is prompt tuning.
class MemoryTokens : public Module {
 public:
  /// M = `count` ≥ 1 vectors, which start as N(0, 0.02²).
  MemoryTokens(int64_t count, int64_t width);
  /// The vectors start as these rows [M, C], such as the embeddings of a written prompt.
  explicit MemoryTokens(const Tensor& rows);
  Tensor before(const Tensor& x) const;  ///< [B, T, C] → [B, M + T, C]
  /// The mask of the joined sequence, for the mask of one with `time` positions. A window counts
  /// the memory as positions; if it shows the first keys, it shows the memory too. `allowed` and
  /// `bias` must have keys on their last axis, and queries on the one before or 1; the memory sees
  /// all keys and is seen by all queries.
  AttentionMask before(const AttentionMask& mask, int64_t time) const;
  Tensor lengths(const Tensor& lengths) const;  ///< int64 [B]: lengths of the joined rows
  Tensor rest(const Tensor& y) const;           ///< [B, M + T, ...] → [B, T, ...]
  void fields(Fields& f) override { f("tokens", tokens); }
  MemoryTokens clone();

  Parameter tokens;  ///< [M, C]
};

}  // namespace vitrine::nn
