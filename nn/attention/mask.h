// Which keys a query may see.
#pragma once

#include <span>

#include "core/tensor.h"
#include "ops/attention.h"

namespace vitrine::nn {

/// Query i stands at position i + (Tk − Tq): the last query is aligned with the last key. All
/// conditions hold together.
struct AttentionMask {
  bool causal = false;
  /// A sliding window: at most this many keys before the position
  int64_t left = AttentionForm::kUnlimited;
  int64_t right = AttentionForm::kUnlimited;  ///< and at most this many after it
  Tensor allowed = {};  ///< bool, true = visible, broadcast to [B, H, Tq, Tk]; undefined = all
  Tensor bias = {};     ///< added to the scores, broadcast to [B, H, Tq, Tk]

  /// causal, window and `allowed` in one, [.., Tq, Tk]; undefined where nothing is hidden.
  Tensor visible(int64_t queries, int64_t keys, Device device) const;
  /// How many keys each query sees, int64, broadcast to [B, H, Tq, 1]. A bias hides none, even
  /// where it is −∞. With `allowed` a tensor as large as visible() is summed.
  Tensor visible_keys(int64_t queries, int64_t keys, Device device) const;
};

/// bool [B, 1, 1, Tk]: row b sees its first lengths[b] keys.
Tensor padding_mask(std::span<const int64_t> lengths, int64_t keys, Device device = Device::cpu);
/// bool [T, T]: everyone sees the first `prefix` keys, and what lies before himself.
Tensor prefix_mask(int64_t prefix, int64_t time, Device device = Device::cpu);
/// bool [T, T]: blocks of `block` positions; a query sees the blocks that `layout` [T/block,
/// T/block] (bool) allows.
Tensor block_mask(const Tensor& layout, int64_t block);

}  // namespace vitrine::nn
