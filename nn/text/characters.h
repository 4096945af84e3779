// Characters as tokens.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nn/text/tokenizer.h"

namespace vitrine::nn {

/// The distinct characters (Unicode code points) of a text, sorted by code point. The token id of a
/// character is its index. There are no special tokens. Encoding a character that the vocabulary
/// does not have is an error that names it.
class CharacterVocabulary final : public Tokenizer {
 public:
  explicit CharacterVocabulary(const std::string& text);  ///< an empty text is an error
  /// The characters in the given order, as characters() returns them. A repeated character is an
  /// error.
  explicit CharacterVocabulary(const std::vector<std::string>& characters);

  std::string kind() const override { return "characters"; }
  int64_t size() const override { return static_cast<int64_t>(characters_.size()); }
  std::optional<int64_t> find(std::string_view token) const override;
  const std::vector<std::string>& characters() const { return characters_; }
  /// A JSON list: ["\n", "a", 255]. A byte that is not part of a character is written as a number.
  std::string to_json() const override;
  /// The vocabulary from a text that to_json() returned; any other text is an error.
  static CharacterVocabulary from_json(const std::string& text);

 protected:
  void append_ids(std::string_view text, SpecialTokens special, std::vector<int32_t>& ids) const override;
  const std::string& text_of(int64_t id) const override { return characters_[static_cast<size_t>(id)]; }

 private:
  std::vector<std::string> characters_;
  std::map<std::string, int32_t, std::less<>> ids_;
  std::array<int32_t, 256> ids_of_bytes_;  ///< for characters of one byte; −1: none
};

/// The characters of a UTF-8 text, one string each. A byte that is not valid UTF-8 is a string of
/// its own.
std::vector<std::string> split_characters(const std::string& text);

/// The position of the character number `index`, counted in the same way; the end of the text if it
/// has fewer.
size_t position_of_character(std::string_view text, int64_t index);
/// The number of characters.
int64_t count_characters(std::string_view text);

}  // namespace vitrine::nn
