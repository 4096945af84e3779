// The rows of the library's own bases, in the order of the help text.
#pragma once

#include <vector>

#include "nn/transformer/mixers.h"

namespace vitrine::nn {

/// Attentions over heads, dot-product attention first.
std::vector<MixerRow> attention_rows();
/// Mixers with projections of their own.
std::vector<MixerRow> other_rows();

}  // namespace vitrine::nn
