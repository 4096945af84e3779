// Masks: which keys a query may see.
#pragma once

#include <span>
#include <string>

#include "core/tensor.h"
#include "ops/attention.h"

namespace vitrine::nn {

/// Query i is at position i + (Tk − Tq): the last query is aligned with the last key. A key is
/// visible if all conditions hold.
struct AttentionMask {
  bool causal = false;
  /// A sliding window: at most this many keys before the position of the query
  int64_t left = AttentionForm::kUnlimited;
  int64_t right = AttentionForm::kUnlimited;  ///< at most this many keys after it
  /// `left` never hides the first keys, as many as this. They are the first keys of the tensor,
  /// also if `start` says that a row begins later. Without a window it has no effect.
  int64_t first = 0;
  Tensor allowed = {};  ///< bool, true = visible, broadcast to [B, H, Tq, Tk]; undefined: all
  Tensor bias = {};     ///< added to the scores, broadcast to [B, H, Tq, Tk]
  /// int64 [B]: position 0 of row b is key start[b], for parts that count positions from the start,
  /// such as rotary. It hides nothing. Undefined: position 0 is key 0.
  Tensor start = {};

  /// `causal`, the window and `allowed` combined, [.., Tq, Tk]; undefined if no key is hidden.
  Tensor visible(int64_t queries, int64_t keys, Device device) const;
  /// The number of keys that each query sees: int64, broadcast to [B, H, Tq, 1]. `bias` hides no
  /// key, even if it is −∞. With `allowed`, this sums a tensor of the size of visible().
  Tensor visible_keys(int64_t queries, int64_t keys, Device device) const;
  /// The mask that also hides keys more than `left` before the position, except the first `first`.
  AttentionMask within(int64_t left, int64_t first, int64_t queries, int64_t keys, Device device) const;
  /// The mask for `memory` keys more, before the others. Every query sees them, except a query that
  /// sees no other key.
  AttentionMask after_memory(int64_t memory, int64_t queries, int64_t keys, Device device) const;
};

/// The mask that also hides the keys after the length of each row, int64 [B], if it is defined.
AttentionMask with_lengths(AttentionMask mask, const Tensor& lengths, int64_t batch, int64_t keys);
/// The last `keys` of all keys that `allowed` shows to every query of a row, as bool
/// [B, 1, keys, 1], B or 1; undefined: it shows all. For mechanisms whose queries share what they
/// read. `causal` is ignored. Errors, which name the mechanism `who`: a bias, a window, and an
/// `allowed` that may differ from query to query or from head to head.
Tensor shared_keys(const AttentionMask& mask, int64_t keys, const std::string& who);
/// bool [B, 1, 1, Tk]: row b sees its first lengths[b] keys.
Tensor padding_mask(std::span<const int64_t> lengths, int64_t keys, Device device = Device::cpu);
/// bool [T, T]: every query sees the first `prefix` keys, itself, and the keys before it.
Tensor prefix_mask(int64_t prefix, int64_t time, Device device = Device::cpu);

}  // namespace vitrine::nn
