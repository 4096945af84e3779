// Byte pair encoding: a word is spelled in bytes, and frequent pairs become one token.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "nn/text/token_model.h"

namespace vitrine::nn {

/// Two neighbours that become one token.
struct Merge {
  int32_t left, right, merged;
  bool operator==(const Merge&) const = default;
};

/// Byte-level BPE (Sennrich et al., "Neural machine translation of rare words with subword units",
/// 2016; bytes as in GPT-2). A word begins as its bytes. Of all neighbours that have a merge, the
/// pair whose merge is first in the list becomes one token, and so on, until no neighbours have a
/// merge. The text of the merged token is the text of both parts.
class Bpe final : public TokenModel {
 public:
  /// The vocabulary must have the tokens of all merges. `whole_words`: a word that is a token is
  /// not merged from its bytes (as in Llama 3). Errors: a merge of tokens that are not in the
  /// vocabulary, whose text is not the text of both parts, or that occurs twice.
  Bpe(VocabularyTable vocabulary, std::vector<Merge> merges, bool whole_words = false);

  std::string kind() const override { return "bpe"; }
  const VocabularyTable& vocabulary() const override { return vocabulary_; }
  const std::vector<Merge>& merges() const { return merges_; }
  bool whole_words() const { return whole_words_; }
  /// In O(n log n) steps for a word of n bytes: the pairs wait in a priority queue. A byte that is
  /// no token is an error.
  void append_ids(std::string_view word, std::vector<int32_t>& ids) const override;
  /// The definition of append_ids, in O(n²) steps: the tokens of the word at the beginning and
  /// after each merge.
  std::vector<std::vector<int32_t>> merge_steps(std::string_view word) const;
  std::string piece(const std::string& token, bool) const override { return token; }
  void write(nlohmann::ordered_json& file) const override;
  std::string spelling(const std::string& token) const override;

 private:
  static constexpr int32_t kNone = -1;
  std::vector<int32_t> bytes_of(std::string_view word) const;
  /// The place of a pair in the list of merges, or kNone.
  int32_t rank_of(int32_t left, int32_t right) const;

  VocabularyTable vocabulary_;
  std::vector<Merge> merges_;
  std::unordered_map<uint64_t, int32_t> ranks_;
  bool whole_words_;
};

}  // namespace vitrine::nn
