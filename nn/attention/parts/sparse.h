// Patterns of sparse attention as parts.
#pragma once

#include <functional>
#include <string>

#include "nn/attention/part.h"
#include "nn/attention/patterns.h"

namespace vitrine::nn {

/// Makes the mask bool [Tq, Tk] of a pattern. Query i is at position i + Tk − Tq.
using MakePattern = std::function<Tensor(const PatternSize&)>;

/// A row for register_attention_part: a query sees the keys that `pattern` allows. So a pattern of
/// your own, such as a layout of blocks, becomes a part with a name:
///
///   register_attention_part(pattern_part("mine", "blocks of my layout", [layout](auto& size) {
///     return block_pattern(size, layout, 16);
///   }));
AttentionPartRow pattern_part(const std::string& name, const std::string& help, MakePattern pattern);

}  // namespace vitrine::nn
