// The rows of the library's own parts, in the order of the help text. Each function is defined in
// the file of this folder that has its name.
#pragma once

#include "nn/attention/part.h"

// clang-format off
#define VITRINE_ATTENTION_PARTS(X)                                                               \
  X(laser) X(cosine) X(qk_norm) X(qk_norm_rms) X(temperature) X(rotary) X(persistent) X(additive) \
  X(luong_dot) X(luong_general) X(luong_concat) X(optimal) X(entropy) X(scale) X(softcap)         \
  X(alibi) X(t5) X(window) X(dilated) X(global) X(strided) X(fixed) X(blocks) X(entmax)           \
  X(sparsemax) X(sigmoid) X(sink) X(adaptive_span) X(learned_mask)
// clang-format on

namespace vitrine::nn::parts {

#define VITRINE_DECLARE(name) AttentionPartRow name();
VITRINE_ATTENTION_PARTS(VITRINE_DECLARE)
#undef VITRINE_DECLARE

}  // namespace vitrine::nn::parts
