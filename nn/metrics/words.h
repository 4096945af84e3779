// Words and n-grams of texts, for the metrics of translation and of speech.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace vitrine::nn {

/// Whether a character is white space: the property White_Space of the Unicode Standard, and the
/// separators U+001C to U+001F, as for Python's str.split().
bool is_white_space(std::string_view character);

/// The longest pieces of the text without white space.
std::vector<std::string> words_of(const std::string& text);
/// The text without white space at its beginning and its end.
std::string stripped(const std::string& text);

/// Throws an error that begins with `op` for no segments, for references of another number of
/// segments, and for a segment without reference.
void check_segments(const char* op, const std::vector<std::string>& hypotheses,
                    const std::vector<std::vector<std::string>>& references);

/// How often each sequence of `order` neighboring items occurs. The items of a sequence are joined
/// by a space, so no item may contain one.
using Ngrams = std::unordered_map<std::string, int64_t>;
Ngrams ngrams(const std::vector<std::string>& items, int64_t order);
/// Σ min(count in x, count in y).
int64_t matches(const Ngrams& x, const Ngrams& y);

}  // namespace vitrine::nn
