#include "nn/text/train_bpe.h"

#include <algorithm>
#include <queue>
#include <tuple>
#include <unordered_map>

#include "core/error.h"

namespace vitrine::nn {
namespace {

using Pair = std::pair<int32_t, int32_t>;

struct PairHash {
  size_t operator()(const Pair& pair) const {
    const auto both =
        static_cast<uint64_t>(static_cast<uint32_t>(pair.first)) << 32 | static_cast<uint32_t>(pair.second);
    return static_cast<size_t>((both * 0x9E3779B97F4A7C15) >> 20);
  }
};

/// The words as tokens, and the counts of all pairs of neighbours. A merge changes few counts, so
/// they are kept up to date and never counted again.
class Trainer {
 public:
  Trainer(std::vector<SpelledWord> words, VocabularyTable& vocabulary, const std::string& prefix)
      : vocabulary_(vocabulary), words_(std::move(words)), prefix_(prefix), queue_(Less{&vocabulary}) {
    for (size_t w = 0; w < words_.size(); ++w)
      for (size_t i = 0; i + 1 < words_[w].tokens.size(); ++i)
        change({words_[w].tokens[i], words_[w].tokens[i + 1]}, words_[w].count, w);
    apply_changes();
  }

  /// Merges the most frequent pair. Returns false if no pair occurs `least` times.
  bool merge_one(int64_t least, std::vector<Merge>& merges) {
    const auto best = most_frequent();
    if (!best || pairs_[*best].count < least) return false;
    const auto& [left, right] = *best;
    const int32_t merged = vocabulary_.add(vocabulary_[left] + vocabulary_[right].substr(prefix_.size()));
    merges.push_back({left, right, merged});
    // Taken out of the map, which grows while the words change.
    const std::vector<size_t> places = std::move(pairs_[*best].words);
    for (const size_t w : places) merge_in(w, *best, merged);
    apply_changes();
    return true;
  }

 private:
  struct Count {
    int64_t count = 0;
    std::vector<size_t> words = {};  ///< that contain the pair, or did before a later merge
  };
  struct Candidate {
    int64_t count;
    Pair pair;
  };
  struct Less {
    const VocabularyTable* vocabulary;
    bool operator()(const Candidate& a, const Candidate& b) const {
      if (a.count != b.count) return a.count < b.count;
      const VocabularyTable& v = *vocabulary;
      return std::tie(v[a.pair.first], v[a.pair.second]) < std::tie(v[b.pair.first], v[b.pair.second]);
    }
  };

  /// A count in the queue may be out of date. If the pair has become rarer, it enters again with
  /// its present count. If it has become more frequent, it is in the queue a second time.
  std::optional<Pair> most_frequent() {
    while (!queue_.empty()) {
      const Candidate top = queue_.top();
      const auto found = pairs_.find(top.pair);
      const int64_t present = found == pairs_.end() ? 0 : found->second.count;
      if (present > 0 && present == top.count) return top.pair;
      queue_.pop();
      if (present > 0 && present < top.count) queue_.push({present, top.pair});
    }
    return std::nullopt;
  }

  void change(const Pair& pair, int64_t by, size_t word) {
    changes_[pair] += by;
    if (by <= 0) return;
    std::vector<size_t>& words = pairs_[pair].words;
    if (words.empty() || words.back() != word) words.push_back(word);
  }

  void apply_changes() {
    for (const auto& [pair, by] : changes_) {
      if (by == 0) continue;
      const int64_t count = pairs_[pair].count += by;
      if (by > 0) queue_.push({count, pair});
      if (count == 0) pairs_.erase(pair);
    }
    changes_.clear();
  }

  /// Merges the pair in one word, from left to right. In x·left·right·y the pairs (x, left),
  /// (left, right) and (right, y) disappear, and (x, merged) and (merged, y) appear.
  void merge_in(size_t w, const Pair& pair, int32_t merged) {
    SpelledWord& word = words_[w];
    std::vector<int32_t>& tokens = word.tokens;
    size_t end = 0;  // of the tokens after the merge, which are written in place
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (i + 1 == tokens.size() || Pair(tokens[i], tokens[i + 1]) != pair) {
        tokens[end++] = tokens[i];
        continue;
      }
      change(pair, -word.count, w);
      if (end > 0) {
        change({tokens[end - 1], pair.first}, -word.count, w);
        change({tokens[end - 1], merged}, word.count, w);
      }
      if (i + 2 < tokens.size()) {
        change({pair.second, tokens[i + 2]}, -word.count, w);
        change({merged, tokens[i + 2]}, word.count, w);
      }
      tokens[end++] = merged;
      ++i;
    }
    tokens.resize(end);
  }

  VocabularyTable& vocabulary_;
  std::vector<SpelledWord> words_;
  std::string prefix_;
  std::unordered_map<Pair, Count, PairHash> pairs_;
  std::unordered_map<Pair, int64_t, PairHash> changes_;  ///< of one merge
  std::priority_queue<Candidate, std::vector<Candidate>, Less> queue_;
};

std::vector<SpelledWord> in_bytes(const std::vector<std::pair<std::string, int64_t>>& words) {
  std::vector<SpelledWord> spelled;
  for (const auto& [text, count] : words) {
    spelled.push_back({{}, count});
    for (const char byte : text) spelled.back().tokens.push_back(static_cast<unsigned char>(byte));
  }
  return spelled;
}

}  // namespace

std::vector<std::pair<std::string, int64_t>> count_words(std::string_view text, const Splitter& splitter,
                                                         const std::vector<std::string>& special) {
  std::vector<AddedToken> tokens;
  for (const std::string& s : special) tokens.push_back({.text = s});
  std::unordered_map<std::string_view, int64_t> counts;
  AddedTokens(std::move(tokens))
      .split(text, SpecialTokens::as_tokens, [&](std::string_view part, const AddedToken* token) {
        if (token == nullptr) splitter.split(part, [&](std::string_view word) { ++counts[word]; });
      });
  std::vector<std::pair<std::string, int64_t>> words(counts.begin(), counts.end());
  std::sort(words.begin(), words.end());
  return words;
}

std::vector<Merge> learn_merges(std::vector<SpelledWord> words, VocabularyTable& vocabulary, int64_t size,
                                int64_t least_count, const std::string& prefix) {
  Trainer trainer(std::move(words), vocabulary, prefix);
  std::vector<Merge> merges;
  while (vocabulary.size() < size && trainer.merge_one(least_count, merges)) continue;
  return merges;
}

PipelineTokenizer train_bpe(std::string_view text, const BpeOptions& options) {
  const auto special = static_cast<int64_t>(options.special.size());
  check(options.vocabulary >= 256 + special,
        "train_bpe: vocabulary is {}, wanted at least the 256 bytes and {} special tokens",
        options.vocabulary, special);
  check(options.vocabulary <= INT32_MAX, "train_bpe: vocabulary is {}, wanted less than 2^31",
        options.vocabulary);
  check(options.least_count >= 1, "train_bpe: least_count is {}, wanted at least 1", options.least_count);
  check(!text.empty(), "train_bpe: the text is empty");
  VocabularyTable vocabulary;
  for (int byte = 0; byte < 256; ++byte) vocabulary.add(std::string(1, static_cast<char>(byte)));
  const Splitter splitter({{Pattern(options.pattern), Remains::all}});
  std::vector<Merge> merges = learn_merges(in_bytes(count_words(text, splitter, options.special)), vocabulary,
                                           options.vocabulary - special, options.least_count);
  std::vector<AddedToken> added;
  for (const std::string& s : options.special)
    added.push_back({.id = vocabulary.size() + static_cast<int64_t>(added.size()), .text = s});
  return PipelineTokenizer({.splitter = splitter,
                            .model = std::make_shared<Bpe>(std::move(vocabulary), std::move(merges)),
                            .added = std::move(added)});
}

}  // namespace vitrine::nn
