#include "nn/text/byte_alphabet.h"

#include <array>

#include "nn/text/utf8.h"

namespace vitrine::nn {
namespace {

constexpr int kCodes = 0x100 + 68;  // 68 bytes are not printable

struct Alphabet {
  std::array<int, 256> code_of;
  std::array<int, kCodes> byte_of;  ///< −1: none
};

constexpr Alphabet kAlphabet = [] {
  Alphabet a{};
  for (int& byte : a.byte_of) byte = -1;
  int next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable =
        (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);  // U+00AD is the soft hyphen
    a.code_of[static_cast<size_t>(byte)] = printable ? byte : next++;
    a.byte_of[static_cast<size_t>(a.code_of[static_cast<size_t>(byte)])] = byte;
  }
  return a;
}();

}  // namespace

std::string spell_bytes(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    const int code = kAlphabet.code_of[static_cast<unsigned char>(byte)];
    if (code >= 0x80) text += static_cast<char>(0xC0 | (code >> 6));
    text += static_cast<char>(code < 0x80 ? code : 0x80 | (code & 0x3F));
  }
  return text;
}

std::optional<std::string> unspell_bytes(std::string_view text) {
  std::string bytes;
  for (size_t i = 0; i < text.size();) {
    const Utf8Sequence sequence = utf8_sequence(text, i);
    if (!sequence.whole || sequence.length > 2) return std::nullopt;
    const int first = static_cast<unsigned char>(text[i]);
    const int code = sequence.length == 1 ? first : (first & 0x1F) << 6 | (text[i + 1] & 0x3F);
    if (code >= kCodes || kAlphabet.byte_of[static_cast<size_t>(code)] < 0) return std::nullopt;
    bytes += static_cast<char>(kAlphabet.byte_of[static_cast<size_t>(code)]);
    i += sequence.length;
  }
  return bytes;
}

}  // namespace vitrine::nn
