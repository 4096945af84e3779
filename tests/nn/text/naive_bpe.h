// The training of byte pair encoding as a textbook has it: slow, and plain to see that it is right.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "nn/text/bpe.h"

namespace vitrine::test {

using TextPair = std::pair<std::string, std::string>;

/// The pair whose count is the greatest and, of those, the greatest pair of byte strings.
inline TextPair most_frequent(const std::map<TextPair, int64_t>& counts) {
  auto best = counts.begin();
  for (auto at = counts.begin(); at != counts.end(); ++at)
    if (at->second >= best->second) best = at;  // the map goes from smaller to greater pairs
  return best->first;
}

/// A word as its pieces, and its count.
using NaiveWord = std::pair<std::vector<std::string>, int64_t>;

/// How often each pair of neighbours occurs.
inline std::map<TextPair, int64_t> pair_counts(const std::vector<NaiveWord>& words) {
  std::map<TextPair, int64_t> counts;
  for (const auto& [pieces, count] : words)
    for (size_t i = 0; i + 1 < pieces.size(); ++i) counts[{pieces[i], pieces[i + 1]}] += count;
  return counts;
}

/// Joins the pair in all words, from left to right. The right piece loses its prefix.
inline void join_pair(std::vector<NaiveWord>& words, const TextPair& pair, const std::string& prefix = "") {
  for (auto& entry : words) {
    std::vector<std::string> joined;
    const std::vector<std::string>& pieces = entry.first;
    for (size_t i = 0; i < pieces.size(); ++i) {
      const bool here = i + 1 < pieces.size() && TextPair(pieces[i], pieces[i + 1]) == pair;
      joined.push_back(here ? pieces[i] + pieces[i + 1].substr(prefix.size()) : pieces[i]);
      if (here) ++i;
    }
    entry.first = joined;
  }
}

/// The first merges of some words, each with its count. All pairs are counted for each merge.
inline std::vector<TextPair> naive_merges(const std::vector<std::pair<std::string, int64_t>>& words,
                                          size_t merges, int64_t least = 1) {
  std::vector<NaiveWord> split;
  for (const auto& [word, count] : words) {
    split.emplace_back(std::vector<std::string>(), count);
    for (const char byte : word) split.back().first.emplace_back(1, byte);
  }
  std::vector<TextPair> result;
  while (result.size() < merges) {
    const std::map<TextPair, int64_t> counts = pair_counts(split);
    if (counts.empty()) break;
    const TextPair best = most_frequent(counts);
    if (counts.at(best) < least) break;
    result.push_back(best);
    join_pair(split, best);
  }
  return result;
}

/// The merges of a model as texts.
inline std::vector<TextPair> texts_of(const nn::Bpe& bpe) {
  std::vector<TextPair> result;
  for (const nn::Merge& merge : bpe.merges())
    result.emplace_back(bpe.vocabulary()[merge.left], bpe.vocabulary()[merge.right]);
  return result;
}

}  // namespace vitrine::test
