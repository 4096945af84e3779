// Whole words as tokens.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "nn/text/pipeline.h"
#include "nn/text/token_model.h"

namespace vitrine::nn {

struct WordsOptions {
  /// The token of a word that the vocabulary does not have. If it is not in the vocabulary either,
  /// such a word is an error
  std::string unknown = "<unk>";
  /// An unknown word is spelled in bytes, by the tokens <0x00> … <0xFF>; no word is lost
  bool byte_fallback = false;
  /// Decoding puts a blank between words; with byte_fallback the words must hold their blanks
  bool blanks = true;
};

/// A vocabulary of whole words.
class Words final : public TokenModel {
 public:
  /// With byte_fallback, the vocabulary must have the 256 tokens of bytes, and `blanks` be false.
  explicit Words(VocabularyTable vocabulary, WordsOptions options = {});

  std::string kind() const override { return "words"; }
  const VocabularyTable& vocabulary() const override { return vocabulary_; }
  const WordsOptions& options() const { return options_; }
  void append_ids(std::string_view word, std::vector<int32_t>& ids) const override;
  std::string piece(const std::string& token, bool first) const override;
  void write(nlohmann::ordered_json& file) const override;

 private:
  VocabularyTable vocabulary_;
  WordsOptions options_;
  std::vector<int32_t> ids_of_bytes_;  ///< with byte_fallback
};

/// A tokenizer whose vocabulary is the 256 bytes, then the most frequent words of a text, in
/// `vocabulary` tokens (of equally frequent words the one with the smaller bytes). Words are the
/// matches of `pattern` and the text between them. Other words are spelled in bytes, so each text
/// comes back unchanged.
PipelineTokenizer train_words(std::string_view text, int64_t vocabulary,
                              const std::string& pattern = kGpt2Pattern);

/// A tokenizer of the words of texts that white space separates. Token 0 is <unk>, and then come
/// the words that occur at least `least` times, in the order of their bytes. Other words are <unk>.
PipelineTokenizer whole_words(const std::vector<std::string>& texts, int64_t least = 1);

}  // namespace vitrine::nn
