#include "nn/text/utf8.h"

namespace vitrine::nn {
namespace {

struct Lead {
  size_t length;  // bytes of the whole sequence; 0: not a lead byte
  // The range of the second byte; it excludes overlong forms and surrogates
  unsigned char first, last;
};

Lead lead_of(unsigned char byte) {
  if (byte <= 0x7F) return {1, 0, 0};
  if (byte >= 0xC2 && byte <= 0xDF) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte >= 0xF1 && byte <= 0xF3) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

}  // namespace

Utf8Sequence utf8_sequence(std::string_view text, size_t begin) {
  const Lead lead = lead_of(static_cast<unsigned char>(text[begin]));
  size_t length = 1;
  while (length < lead.length && begin + length < text.size()) {
    const auto byte = static_cast<unsigned char>(text[begin + length]);
    const unsigned char first = length == 1 ? lead.first : 0x80;
    const unsigned char last = length == 1 ? lead.last : 0xBF;
    if (byte < first || byte > last) break;
    ++length;
  }
  return {length, length == lead.length};
}

bool utf8_may_continue(std::string_view bytes) {
  if (bytes.empty()) return false;
  const size_t length = lead_of(static_cast<unsigned char>(bytes[0])).length;
  return bytes.size() < length && utf8_sequence(bytes, 0).length == bytes.size();
}

size_t utf8_valid_length(std::string_view text, size_t begin) {
  size_t end = begin;
  while (end < text.size()) {
    if (static_cast<unsigned char>(text[end]) < 0x80) {  // ASCII, the most frequent case
      ++end;
      continue;
    }
    const Utf8Sequence sequence = utf8_sequence(text, end);
    if (!sequence.whole) break;
    end += sequence.length;
  }
  return end - begin;
}

}  // namespace vitrine::nn
