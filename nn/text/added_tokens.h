// Tokens that are found in a text before it is split into words.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "nn/text/tokenizer.h"

namespace vitrine::nn {

/// A token that no word splits, such as <|endoftext|> or [MASK].
struct AddedToken {
  int64_t id = 0;
  std::string text = {};
  bool special = true;       ///< found only with SpecialTokens::as_tokens; others are always found
  bool normalized = false;   ///< searched in the normalized text; others in the text as given
  bool strip_left = false;   ///< takes the white space before it as well
  bool strip_right = false;  ///< takes the white space after it as well
};

/// Finds added tokens in a text: the leftmost first, and the longest of those that begin at the
/// same byte.
class AddedTokens {
 public:
  AddedTokens() = default;
  /// An empty text, or one that occurs twice, is an error.
  explicit AddedTokens(std::vector<AddedToken> tokens);

  /// Calls f with each part of the text in order: a found token, or the text between found tokens,
  /// where `token` is null.
  void split(std::string_view text, SpecialTokens special,
             const std::function<void(std::string_view part, const AddedToken* token)>& f) const;
  const std::vector<AddedToken>& all() const { return tokens_; }

 private:
  const AddedToken* token_at(std::string_view text, SpecialTokens special) const;
  std::vector<AddedToken> tokens_;
  std::vector<size_t> longest_first_;  ///< indices
  std::array<bool, 256> begins_{};     ///< by byte: whether a token begins with it
};

}  // namespace vitrine::nn
