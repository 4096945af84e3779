#include "nn/metrics/words.h"

#include <algorithm>
#include <array>

#include "core/error.h"
#include "nn/text/characters.h"

namespace vitrine::nn {
namespace {

/// The white space of two and three bytes, in UTF-8: U+0085, U+00A0, U+1680, U+2000 to U+200A,
/// U+2028, U+2029, U+202F, U+205F and U+3000.
constexpr std::array<std::string_view, 19> kWide = {
    "\u0085", "\u00A0", "\u1680", "\u2000", "\u2001", "\u2002", "\u2003", "\u2004", "\u2005", "\u2006",
    "\u2007", "\u2008", "\u2009", "\u200A", "\u2028", "\u2029", "\u202F", "\u205F", "\u3000"};

}  // namespace

bool is_white_space(std::string_view character) {
  if (character.size() != 1) return std::find(kWide.begin(), kWide.end(), character) != kWide.end();
  const char c = character[0];
  return c == ' ' || (c >= '\t' && c <= '\r') || (c >= '\x1C' && c <= '\x1F');
}

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  bool inside = false;
  for (const std::string& character : split_characters(text)) {
    const bool white = is_white_space(character);
    if (!white && !inside) words.emplace_back();
    if (!white) words.back() += character;
    inside = !white;
  }
  return words;
}

std::string stripped(const std::string& text) {
  std::string without, white;
  for (const std::string& character : split_characters(text)) {
    if (is_white_space(character)) {
      if (!without.empty()) white += character;
      continue;
    }
    without += white + character;
    white.clear();
  }
  return without;
}

void check_segments(const char* op, const std::vector<std::string>& hypotheses,
                    const std::vector<std::vector<std::string>>& references) {
  check(!hypotheses.empty() && hypotheses.size() == references.size(),
        "{}: there are {} hypotheses and references of {} segments, wanted the same number, at least 1", op,
        hypotheses.size(), references.size());
  for (size_t i = 0; i < references.size(); ++i)
    check(!references[i].empty(), "{}: segment {} of {} has no reference", op, i + 1, references.size());
}

Ngrams ngrams(const std::vector<std::string>& items, int64_t order) {
  Ngrams counts;
  for (int64_t i = 0; i + order <= std::ssize(items); ++i) {
    std::string joined = items[static_cast<size_t>(i)];
    for (int64_t j = i + 1; j < i + order; ++j) joined += ' ' + items[static_cast<size_t>(j)];
    ++counts[joined];
  }
  return counts;
}

int64_t matches(const Ngrams& x, const Ngrams& y) {
  int64_t sum = 0;
  for (const auto& [sequence, count] : x) {
    const auto found = y.find(sequence);
    if (found != y.end()) sum += std::min(count, found->second);
  }
  return sum;
}

}  // namespace vitrine::nn
