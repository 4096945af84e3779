#include "nn/text/added_tokens.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "core/error.h"
#include "nn/text/normalizer.h"
#include "nn/text/utf8.h"

namespace vitrine::nn {
namespace {

/// The code point of a whole character.
char32_t code_point(std::string_view character) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(character[i]); };
  if (character.size() == 1) return byte(0);
  char32_t c = byte(0) & (0x7F >> character.size());
  for (size_t i = 1; i < character.size(); ++i) c = (c << 6) | (byte(i) & 0x3F);
  return c;
}

bool is_space_at(std::string_view text, size_t begin, size_t end) {
  const Utf8Sequence sequence = utf8_sequence(text.substr(0, end), begin);
  return sequence.whole && begin + sequence.length <= end &&
         is_white_space(code_point(text.substr(begin, sequence.length)));
}

/// The end of the white space that begins at `begin`.
size_t end_of_space(std::string_view text, size_t begin) {
  while (begin < text.size() && is_space_at(text, begin, text.size()))
    begin += utf8_sequence(text, begin).length;
  return begin;
}

/// The begin, not before `least`, of the white space that ends at `end`.
size_t begin_of_space(std::string_view text, size_t least, size_t end) {
  for (size_t begin = end; begin > least;) {
    do --begin;
    while (begin > least && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80);
    if (!is_space_at(text, begin, end)) return end;
    end = begin;
  }
  return end;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens)
    : tokens_(std::move(tokens)), longest_first_(tokens_.size()) {
  std::set<std::string> seen;
  for (const AddedToken& token : tokens_) {
    check(!token.text.empty(), "AddedTokens: the token {} is empty", token.id);
    check(seen.insert(token.text).second, "AddedTokens: {} occurs twice", token.text);
    begins_[static_cast<unsigned char>(token.text[0])] = true;
  }
  std::iota(longest_first_.begin(), longest_first_.end(), 0);
  std::stable_sort(longest_first_.begin(), longest_first_.end(),
                   [&](size_t a, size_t b) { return tokens_[a].text.size() > tokens_[b].text.size(); });
}

const AddedToken* AddedTokens::token_at(std::string_view text, SpecialTokens special) const {
  if (!begins_[static_cast<unsigned char>(text[0])]) return nullptr;
  for (const size_t i : longest_first_) {
    const AddedToken& token = tokens_[i];
    if (token.special && special == SpecialTokens::as_text) continue;
    if (text.starts_with(token.text)) return &token;
  }
  return nullptr;
}

void AddedTokens::split(std::string_view text, SpecialTokens special,
                        const std::function<void(std::string_view, const AddedToken*)>& f) const {
  size_t done = 0;
  for (size_t i = 0; i < text.size() && !tokens_.empty();) {
    const AddedToken* token = token_at(text.substr(i), special);
    if (token == nullptr) {
      ++i;
      continue;
    }
    const size_t begin = token->strip_left ? begin_of_space(text, done, i) : i;
    const size_t end = i + token->text.size();
    if (done < begin) f(text.substr(done, begin - done), nullptr);
    f(text.substr(i, token->text.size()), token);
    i = done = token->strip_right ? end_of_space(text, end) : end;
  }
  if (done < text.size()) f(text.substr(done), nullptr);
}

}  // namespace vitrine::nn
