// WordPiece: a word as the longest known pieces, from left to right.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "nn/text/pipeline.h"
#include "nn/text/token_model.h"

namespace vitrine::nn {

struct WordPieceOptions {
  std::string unknown = "[UNK]";  ///< the token of a word that has no pieces
  std::string prefix = "##";      ///< begins each piece that does not begin a word
  int64_t longest_word = 100;     ///< a longer word, in characters, is unknown
  bool clean_up = true;           ///< decoding removes the blank before a full stop and the like
};

/// WordPiece (Schuster and Nakajima, "Japanese and Korean voice search", 2012), encoded as in BERT:
/// the longest token that begins the word, then the longest one that continues it. A word that
/// cannot be completed in this way is the unknown token as a whole. Decoding puts a blank before
/// each piece without the prefix.
class WordPiece final : public TokenModel {
 public:
  /// A vocabulary without the unknown token is an error.
  explicit WordPiece(VocabularyTable vocabulary, WordPieceOptions options = {});

  std::string kind() const override { return "word_piece"; }
  const VocabularyTable& vocabulary() const override { return vocabulary_; }
  const WordPieceOptions& options() const { return options_; }
  void append_ids(std::string_view word, std::vector<int32_t>& ids) const override;
  std::string piece(const std::string& token, bool first) const override;
  void write(nlohmann::ordered_json& file) const override;

 private:
  VocabularyTable vocabulary_;
  WordPieceOptions options_;
  int32_t unknown_ = 0;
  size_t longest_token_ = 0;  ///< in bytes
};

/// The special tokens of BERT. A vocabulary may lack some of them.
inline constexpr std::array kBertTokens = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};

/// BERT's normalizer: without control characters, and in lower case without accents.
Normalizer bert_normalizer(bool lowercase = true);

/// BERT's splitter: at white space, and before and after each punctuation mark.
Splitter bert_splitter();

/// BERT's tokenizer for the tokens of its vocab.txt, one a line. Its special tokens are those of
/// kBertTokens that occur in the vocabulary.
PipelineTokenizer bert_tokenizer(const std::vector<std::string>& tokens, bool lowercase = true);

}  // namespace vitrine::nn
