// Attention over heads that are already split, chosen by name.
#pragma once

#include <memory>
#include <string>

#include "nn/attention/cache.h"
#include "nn/attention/mask.h"
#include "nn/module.h"

namespace vitrine::nn {

/// What attention did, for display and for gradients by path.
struct AttentionTrace {
  Tensor q, k, v;    ///< after preparation, [B, H, T, D]
  Tensor weights;    ///< [B, H, Tq, Tk]
  double scale = 1;  ///< what multiplied q·k
  Tensor row_scale;  ///< and that, for each query: broadcast to [B, H, Tq, 1]; undefined where it is 1
  Tensor visible;    ///< bool, broadcast to the weights; undefined where no key is hidden
  bool distribution = true;  ///< the weights are ≥ 0 and sum to 1
  /// ∂(modified scores)/∂scores, like the weights: 1 − tanh²(s/c) of a softcap. Undefined where it is 1.
  Tensor score_slope;
};

/// An attention: q [B, H, Tq, D], k and v [B, Hkv, Tk, D] → [B, H, Tq, D]. Query head h reads key head h/(H/Hkv).
/// Queries, keys and values come as they were projected: the attention normalizes and rotates them itself.
class Attention : public Module {
 public:
  /// The last query is aligned with the last key, for masks and positions alike: query i is at position
  /// i + Tk − Tq. With a cache, q, k and v continue what the cache holds, and Tk counts all of it. A query that
  /// sees no key gives 0, and its gradient is 0. With a trace the weights are kept.
  virtual Tensor forward(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMask& mask,
                         KeyValueCache* cache = nullptr, AttentionTrace* trace = nullptr) const = 0;
  /// How a forward on this thread is computed with this mask, under the tape that records now, and why; and
  /// what the scores are multiplied by.
  virtual std::string explain(bool weights_wanted = false, const AttentionMask& mask = {}) const = 0;
};

}  // namespace vitrine::nn
