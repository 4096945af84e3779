// Attention of Transformer-XL (Dai et al. 2019): segments of a long text are read one after
// another, and each segment also sees the hidden states of the one before.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nn/attention/composed.h"
#include "nn/layers/linear.h"
#include "nn/mixer.h"

namespace vitrine::nn {

/// softmax(((q_i + u)·k_j + (q_i + w)·r_{i−j})/√D)·v, where i − j is the distance of query and key
/// and the last query is aligned with the last key. q [B, H, Tq, D], k and v [B, H, Tk, D],
/// r [H, Tk + Tq − 1, D] from the distance Tk − 1 down to 1 − Tq, u and w [H, D]. A query that sees
/// no key gives 0. `read` computes it as attention of q + u with a bias of the scores. Its parts
/// may change the mask, the weights and the read of the values.
Tensor relative_attention(const ComposedAttention& read, const Tensor& q, const Tensor& k, const Tensor& v,
                          const Tensor& r, const Tensor& u, const Tensor& w, const AttentionMask& mask,
                          MixerTrace* trace = nullptr);

/// Projections of x to q, k and v, relative attention, and the output projection. r is a projection
/// of sinusoids of the distances. u and w are learned, and start at 0.
///
/// A state holds the input of the last `memory` positions. A call with a state projects keys and
/// values from them as well as from x, then replaces them by their detached latest ones. So a state
/// may be used while a tape records: the gradient stops at the segment. Without a state, x is all
/// that there is. Steps of one position give the full pass as long as the memory holds all earlier
/// ones.
class TransformerXl : public Mixer {
 public:
  /// `memory`: the positions that a state holds; 0 = the context.
  explicit TransformerXl(const MixerOptions& options, int64_t memory = 0, const AttentionName& parts = {});
  static const std::vector<Stage>& stages();  ///< of the parts that it accepts
  /// A mask counts the positions of the state as keys; those that it has dropped are ignored. Parts
  /// that count positions from the start, such as `global`, count the dropped ones, too. So the
  /// cost of such a pattern grows with all positions, for `blocks` with their square.
  Tensor forward(const Tensor& x, const MixerCall& call = {}) const override;
  std::unique_ptr<DecodingState> make_state(int64_t batch, int64_t capacity) const override;
  std::string kind() const override { return "attention"; }
  std::string explain(const MixerCall& call = {}) const override;
  void fields(Fields& f) override;
  TransformerXl clone();

  Linear query, key_value, relative, out;  ///< [C, C], [2·Hkv·D, C], [C, C] and [C, C]
  Parameter content_bias, position_bias;   ///< u and w [H, D]
  ComposedAttention read;

 private:
  MixerOptions options_;
  int64_t memory_;
};

}  // namespace vitrine::nn
