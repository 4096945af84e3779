// Characters as tokens.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "nn/text/tokens.h"

namespace vitrine::nn {

/// The distinct characters (Unicode code points) of a text, sorted by code point. The token id of a
/// character is its index.
class CharacterVocabulary {
 public:
  explicit CharacterVocabulary(const std::string& text);  ///< an empty text is an error
  /// The characters in the given order, as characters() returns them. A repeated character is an
  /// error.
  explicit CharacterVocabulary(const std::vector<std::string>& characters);

  Tokens encode(std::string_view text) const;   ///< an unknown character is an error that names it
  std::string decode(const Tokens& ids) const;  ///< an id outside [0, size) is an error
  int64_t size() const { return static_cast<int64_t>(characters_.size()); }
  const std::vector<std::string>& characters() const { return characters_; }
  /// A JSON list: ["\n", "a", 255]. A byte that is not part of a character is written as a number.
  std::string to_json() const;
  /// The vocabulary from a text that to_json() returned; any other text is an error.
  static CharacterVocabulary from_json(const std::string& text);

 private:
  std::vector<std::string> characters_;
  std::map<std::string, int32_t, std::less<>> ids_;
  std::array<int32_t, 256> ids_of_bytes_;  ///< for characters of one byte; −1: none
};

/// The characters of a UTF-8 text, one string each. A byte that is not valid UTF-8 is a string of
/// its own.
std::vector<std::string> split_characters(const std::string& text);

}  // namespace vitrine::nn
