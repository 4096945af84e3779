// Channels as heads and back.
#pragma once

#include <string>

#include "core/tensor.h"

namespace vitrine::nn {

/// Errors, which name `who`: sizes below 1, a width that is no multiple of the heads, and key heads
/// (0: as many as heads) that do not divide the heads.
void check_heads(const std::string& who, int64_t width, int64_t heads, int64_t key_heads = 0);
/// x [B, T, H·D] → [B, H, T, D]: head h has the channels from h·D on.
Tensor split_heads(const Tensor& x, int64_t heads);
/// x [B, H, T, D] → [B, T, H·D].
Tensor join_heads(const Tensor& x);

}  // namespace vitrine::nn
