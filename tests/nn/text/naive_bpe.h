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

/// The first merges of some words, each with its count. All pairs are counted for each merge.
inline std::vector<TextPair> naive_merges(const std::vector<std::pair<std::string, int64_t>>& words,
                                          size_t merges, int64_t least = 1) {
  std::vector<std::pair<std::vector<std::string>, int64_t>> split;
  for (const auto& [word, count] : words) {
    split.emplace_back(std::vector<std::string>(), count);
    for (const char byte : word) split.back().first.emplace_back(1, byte);
  }
  std::vector<TextPair> result;
  while (result.size() < merges) {
    std::map<TextPair, int64_t> counts;
    for (const auto& [tokens, count] : split)
      for (size_t i = 0; i + 1 < tokens.size(); ++i) counts[{tokens[i], tokens[i + 1]}] += count;
    if (counts.empty()) break;
    const TextPair best = most_frequent(counts);
    if (counts[best] < least) break;
    result.push_back(best);
    for (auto& entry : split) {
      std::vector<std::string> merged;
      const std::vector<std::string>& tokens = entry.first;
      for (size_t i = 0; i < tokens.size(); ++i) {
        const bool here = i + 1 < tokens.size() && TextPair(tokens[i], tokens[i + 1]) == best;
        merged.push_back(here ? tokens[i] + tokens[i + 1] : tokens[i]);
        if (here) ++i;
      }
      entry.first = merged;
    }
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
