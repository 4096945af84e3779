#include "nn/text/normalizer.h"

#include <unicode/bytestream.h>
#include <unicode/locid.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>
#include <unicode/utf8.h>

#include <algorithm>
#include <array>

#include "core/error.h"
#include "nn/text/utf8.h"

namespace vitrine::nn {
namespace {

using Kind = Normalization::Kind;

/// Calls f with each code point. A byte that is not part of a character counts as U+FFFD.
template <class F>
void for_each_code_point(std::string_view text, F f) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  const auto size = static_cast<int64_t>(text.size());
  for (int64_t i = 0; i < size;) {
    UChar32 c = 0;
    U8_NEXT_OR_FFFD(bytes, i, size, c);
    f(c);
  }
}

void append(std::string& text, UChar32 c) {
  std::array<uint8_t, 4> bytes{};
  int32_t length = 0;
  U8_APPEND_UNSAFE(bytes.data(), length, c);
  text.append(reinterpret_cast<const char*>(bytes.data()), static_cast<size_t>(length));
}

/// The text of the code points that f keeps and changes: f(c) returns a code point, or −1 to remove
/// it.
template <class F>
std::string map(std::string_view text, F f) {
  std::string result;
  result.reserve(text.size());
  for_each_code_point(text, [&](UChar32 c) {
    if (const UChar32 mapped = f(c); mapped >= 0) append(result, mapped);
  });
  return result;
}

std::string normalize(std::string_view text, Kind kind) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* form = kind == Kind::nfc    ? icu::Normalizer2::getNFCInstance(status)
                                 : kind == Kind::nfd  ? icu::Normalizer2::getNFDInstance(status)
                                 : kind == Kind::nfkc ? icu::Normalizer2::getNFKCInstance(status)
                                                      : icu::Normalizer2::getNFKDInstance(status);
  check(U_SUCCESS(status), "Normalizer: ICU: {}", u_errorName(status));
  check(text.size() <= INT32_MAX, "Normalizer: the text has {} bytes, wanted less than 2^31", text.size());
  std::string result;
  icu::StringByteSink<std::string> sink(&result);
  form->normalizeUTF8(0, {text.data(), static_cast<int32_t>(text.size())}, sink, nullptr, status);
  check(U_SUCCESS(status), "Normalizer: ICU: {}", u_errorName(status));
  return result;
}

/// Character by character, so that no neighbour matters: a final Σ becomes σ like any other.
std::string lowercase(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for_each_code_point(text, [&](UChar32 c) {
    if (c < 0x80) {
      result += static_cast<char>(u_tolower(c));
    } else {
      icu::UnicodeString(c).toLower(icu::Locale::getRoot()).toUTF8String(result);
    }
  });
  return result;
}

/// Characters that BERT puts between blanks: the blocks of CJK ideographs that its authors list.
bool is_chinese(UChar32 c) {
  constexpr std::pair<UChar32, UChar32> kBlocks[] = {
      {0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F},
      {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF}, {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F}};
  return std::any_of(std::begin(kBlocks), std::end(kBlocks),
                     [&](const auto& block) { return c >= block.first && c <= block.second; });
}

std::string clean(std::string_view text) {
  return map(text, [](UChar32 c) -> UChar32 {
    if (u_isUWhiteSpace(c) && (c == '\t' || c == '\n' || c == '\r' || u_charType(c) != U_CONTROL_CHAR))
      return ' ';
    // Not U_GC_C_MASK: a code point without a character (Cn) stays, as in Hugging Face's library.
    constexpr uint32_t kControl = U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CO_MASK;
    return c == 0xFFFD || (U_MASK(u_charType(c)) & kControl) != 0 ? -1 : c;
  });
}

std::string space_chinese(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for_each_code_point(text, [&](UChar32 c) {
    const bool chinese = is_chinese(c);
    if (chinese) result += ' ';
    append(result, c);
    if (chinese) result += ' ';
  });
  return result;
}

/// Without the characters of some general categories, given as a mask of ICU.
std::string without(std::string_view text, uint32_t categories) {
  return map(text, [&](UChar32 c) { return (U_MASK(u_charType(c)) & categories) != 0 ? -1 : c; });
}

std::string bert(std::string text, const Normalization& options) {
  if (options.clean_text) text = clean(text);
  if (options.spaces_around_chinese) text = space_chinese(text);
  if (options.strip_accents) text = without(normalize(text, Kind::nfd), U_GC_MN_MASK);
  if (options.lowercase) text = lowercase(text);
  return text;
}

}  // namespace

std::string Normalizer::operator()(std::string_view given) const {
  std::string text(given);
  // ICU would leave them as they are where nothing else changes.
  const bool has_other_bytes = utf8_valid_length(text, 0) != text.size();
  if (!steps_.empty() && has_other_bytes) text = map(text, [](UChar32 c) { return c; });
  for (const Normalization& step : steps_) switch (step.kind) {
      case Kind::nfc:
      case Kind::nfd:
      case Kind::nfkc:
      case Kind::nfkd: text = normalize(text, step.kind); break;
      case Kind::lowercase: text = lowercase(text); break;
      case Kind::strip_accents: text = without(text, U_GC_M_MASK); break;
      case Kind::bert: text = bert(std::move(text), step); break;
    }
  return text;
}

bool is_white_space(char32_t c) { return u_isUWhiteSpace(static_cast<UChar32>(c)); }

}  // namespace vitrine::nn
