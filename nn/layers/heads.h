// Channels as heads: head h of H has the channels h·D to (h + 1)·D − 1.
#pragma once

#include "core/tensor.h"

namespace vitrine::nn {

/// [B, T, H·D] → [B, H, T, D], a view.
Tensor split_heads(const Tensor& x, int64_t heads);
/// [B, H, T, D] → [B, T, H·D].
Tensor join_heads(const Tensor& x);

}  // namespace vitrine::nn
