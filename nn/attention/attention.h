// Attention over heads that are already split, chosen by name.
#pragma once

#include <memory>
#include <string>

#include "nn/attention/cache.h"
#include "nn/module.h"

namespace vitrine::nn {

/// An attention: q [B, H, Tq, D], k and v [B, Hkv, Tk, D] → [B, H, Tq, D]. Query head h reads key
/// head h/(H/Hkv). Queries, keys and values come as they were projected: the attention normalizes
/// and rotates them itself.
class Attention : public Module {
 public:
  /// The last query is aligned with the last key, for masks and positions alike: query i is at
  /// position i + Tk − Tq. With a state, q, k and v continue what the state holds, and Tk counts
  /// all of it. A query that sees no key gives 0, and its gradient is 0. With a trace the weights
  /// are kept.
  virtual Tensor forward(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMask& mask,
                         DecodingState* state = nullptr, MixerTrace* trace = nullptr) const = 0;
  /// Whether queries and keys have to share their positions: the scores depend on positions, or a
  /// window hides keys.
  virtual bool needs_positions() const { return false; }
  /// The state before the first position, for at most `capacity` positions. It is what `forward`
  /// takes.
  virtual std::unique_ptr<DecodingState> make_state(int64_t batch, int64_t capacity) const;
  /// How a forward on this thread is computed with this mask, under the tape that records now, and
  /// why; and what the scores are multiplied by.
  virtual std::string explain(bool weights_wanted = false, const AttentionMask& mask = {}) const = 0;
};

}  // namespace vitrine::nn
