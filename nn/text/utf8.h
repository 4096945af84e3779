// Finds the boundaries of characters in UTF-8 text.
#pragma once

#include <cstddef>
#include <string_view>

namespace vitrine::nn {

/// A sequence of bytes that begins like a character.
struct Utf8Sequence {
  size_t length;  ///< ≥ 1, the length of its well-formed part
  /// Whether it is a complete character; otherwise its bytes are not part of a character
  bool whole;
};

/// The sequence at text[begin], by the table of well-formed sequences (The Unicode Standard, table
/// 3-7). The table excludes overlong forms, surrogates and code points beyond U+10FFFF.
Utf8Sequence utf8_sequence(std::string_view text, size_t begin);

/// Whether more bytes could make `bytes` one character: it is the beginning of a character, and not
/// a whole one.
bool utf8_may_continue(std::string_view bytes);

/// The number of bytes from `begin` that are whole characters.
size_t utf8_valid_length(std::string_view text, size_t begin);

}  // namespace vitrine::nn
