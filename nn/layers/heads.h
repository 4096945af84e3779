// Channels as heads and back.
#pragma once

#include "core/tensor.h"

namespace vitrine::nn {

/// x [B, T, H·D] → [B, H, T, D]: head h has the channels from h·D on.
Tensor split_heads(const Tensor& x, int64_t heads);
/// x [B, H, T, D] → [B, T, H·D].
Tensor join_heads(const Tensor& x);

}  // namespace vitrine::nn
