// Models of tokens: how one word becomes token ids.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "nn/text/vocabulary_table.h"

namespace vitrine::nn {

/// The part of a PipelineTokenizer that knows the vocabulary: byte pairs, word pieces or words.
class TokenModel {
 public:
  virtual ~TokenModel() = default;
  virtual std::string kind() const = 0;  ///< "bpe", "word_piece" or "words"
  virtual const VocabularyTable& vocabulary() const = 0;
  /// Appends the ids of one word.
  virtual void append_ids(std::string_view word, std::vector<int32_t>& ids) const = 0;
  /// The bytes that a token adds to a decoded text. `first`: the token begins the text.
  virtual std::string piece(const std::string& token, bool first) const = 0;
  /// The members "model" and "decoder" of a tokenizer.json.
  virtual void write(nlohmann::ordered_json& file) const = 0;
  /// How a token of the vocabulary is spelled in a tokenizer.json.
  virtual std::string spelling(const std::string& token) const { return token; }
};

}  // namespace vitrine::nn
