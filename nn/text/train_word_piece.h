// Learns the vocabulary of WordPiece from a text.
#pragma once

#include <cstdint>
#include <string_view>

#include "nn/text/pipeline.h"

namespace vitrine::nn {

struct WordPieceTraining {
  int64_t vocabulary = 1000;  ///< tokens: the special ones, the characters, and one a merge
  bool lowercase = true;      ///< the text is read in lower case and without accents
  int64_t least_count = 1;    ///< rarer pairs of pieces are not merged
};

/// BERT's tokenizer with a vocabulary for a text. The ids begin with kBertTokens; then come the
/// characters of the text, the characters that continue a word, such as ##a, both sorted by their
/// bytes, and the merges in the order in which they were learned. A word begins as its characters,
/// and each merge joins the most frequent pair of neighbours, as in byte pair encoding
/// (learn_merges). Hugging Face's trainer counts in this way, too. The trainer of Schuster and
/// Nakajima (2012) divides the count of a pair by the counts of its two pieces, and is not public.
/// The merges are not kept: encoding takes the longest piece of the vocabulary. A text without
/// words, and a vocabulary too small for the characters, are errors.
PipelineTokenizer train_word_piece(std::string_view text, const WordPieceTraining& options);

}  // namespace vitrine::nn
