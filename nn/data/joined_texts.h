// One text or two as the input of an encoder such as BERT.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "nn/data/batch.h"
#include "nn/text/pipeline.h"

namespace vitrine::nn {

/// Token ids, and the segment of each: 0 for the first text, 1 for the second one.
struct JoinedTexts {
  std::vector<int64_t> ids, segments;
};

/// [CLS] a [SEP], or [CLS] a [SEP] b [SEP]: the tokens around a text are the front and the back of
/// the tokenizer's pipeline. The second text has no front. If there are more than `longest` tokens,
/// the longer text loses its last token, and so on. Errors: `longest` leaves no room for a token of
/// each text.
JoinedTexts join_texts(const PipelineTokenizer& tokenizer, std::string_view a,
                       std::optional<std::string_view> b, int64_t longest);

/// The tensors ids [B, T], lengths [B] and segments [B, T], for B items. The padding is the id
/// `fill`, with the segment 0.
Batch joined_batch(std::span<const JoinedTexts> rows, int64_t fill);

}  // namespace vitrine::nn
