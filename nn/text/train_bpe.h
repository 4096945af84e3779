// Learns the merges of byte pair encoding from a text.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "nn/text/bpe.h"
#include "nn/text/pipeline.h"
#include "nn/text/splitter.h"

namespace vitrine::nn {

/// The distinct words of a text, sorted, and how often each of them occurs.
std::vector<std::pair<std::string, int64_t>> count_words(std::string_view text, const Splitter& splitter,
                                                         const std::vector<std::string>& special = {});

/// A word as the tokens from which merging begins, and how often the word occurs.
struct SpelledWord {
  std::vector<int32_t> tokens;
  int64_t count;
};

/// Learns merges until `vocabulary` has `size` tokens or no pair occurs `least_count` times. Each
/// merge joins the pair of neighbours that is most frequent in the words. Of equally frequent pairs
/// the greater is merged: the one whose left token, or else whose right token, has the greater
/// bytes. The vocabulary must have the tokens of the words; it gets the merged tokens. The text of
/// a merged token is the text of both, without the `prefix` of the right one, such as ## in word
/// pieces.
std::vector<Merge> learn_merges(std::vector<SpelledWord> words, VocabularyTable& vocabulary, int64_t size,
                                int64_t least_count = 1, const std::string& prefix = "");

struct BpeOptions {
  int64_t vocabulary = 1000;  ///< tokens: 256 bytes, one a merge, and the special tokens
  /// The text is split here, so that no token contains them; they have the last ids
  std::vector<std::string> special = {};
  std::string pattern = kGpt2Pattern;  ///< what counts as a word; no merge crosses words
  int64_t least_count = 1;             ///< rarer pairs are not merged
};

/// A byte-level BPE tokenizer for a text. The ids 0 … 255 are the bytes; then come the merges in
/// the order in which they were learned. Each text can be encoded and comes back unchanged. A short
/// text may give fewer tokens than `vocabulary`.
PipelineTokenizer train_bpe(std::string_view text, const BpeOptions& options);

}  // namespace vitrine::nn
