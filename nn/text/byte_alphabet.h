// The alphabet in which files of byte-level tokenizers spell bytes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace vitrine::nn {

/// Bytes in GPT-2's alphabet: one printable character a byte. Bytes that are printable in Latin-1
/// stay; the others, in order, become the code points from U+0100 on. A blank becomes Ġ, and a line
/// feed Ċ.
std::string spell_bytes(std::string_view bytes);

/// The bytes that a text in this alphabet spells; nothing if a character is not of the alphabet.
std::optional<std::string> unspell_bytes(std::string_view text);

}  // namespace vitrine::nn
