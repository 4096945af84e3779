// Where one character of a UTF-8 text ends and the next one begins.
#pragma once

#include <cstddef>
#include <string_view>

namespace vitrine::nn {

/// A sequence of bytes that begins like a character.
struct Utf8Sequence {
  size_t length;  ///< ≥ 1, up to where it is well-formed
  bool whole;     ///< a character; otherwise the bytes belong to none
};

/// The one at text[begin], by the table of well-formed sequences of Unicode (The Unicode Standard,
/// table 3-7), which has neither overlong forms nor surrogates nor numbers beyond U+10FFFF.
Utf8Sequence utf8_sequence(std::string_view text, size_t begin);

}  // namespace vitrine::nn
