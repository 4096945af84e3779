// Attention over heads that are already split, selected by name.
#pragma once

#include <memory>
#include <string>

#include "nn/attention/cache.h"
#include "nn/module.h"

namespace vitrine::nn {

/// An attention: q [B, H, Tq, D], k and v [B, Hkv, Tk, D] → [B, H, Tq, D]. Query head h reads key
/// head h/(H/Hkv). Queries, keys and values are the plain projections: the attention itself
/// normalizes and rotates them.
class Attention : public Module {
 public:
  /// The last query is aligned with the last key, for masks and for positions: query i is at
  /// position i + Tk − Tq. With a state, q, k and v continue the positions in the state, and Tk
  /// counts all of them. A query that sees no key gives output 0 and gradient 0. With a trace, the
  /// weights are stored as a tensor.
  virtual Tensor forward(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMask& mask,
                         DecodingState* state = nullptr, MixerTrace* trace = nullptr) const = 0;
  /// Whether queries and keys must share their positions, because the scores depend on positions or
  /// a window hides keys.
  virtual bool needs_positions() const { return false; }
  /// The state before the first position, for at most `capacity` positions. `forward` accepts this
  /// type of state.
  virtual std::unique_ptr<DecodingState> make_state(int64_t batch, int64_t capacity) const;
  /// Explains how a forward pass on this thread is computed with this mask and the tape that is
  /// recording, and why, and what factor the scores have.
  virtual std::string explain(bool weights_wanted = false, const AttentionMask& mask = {}) const = 0;
};

}  // namespace vitrine::nn
