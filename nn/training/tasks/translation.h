// The task of writing a target text for a source text with a sequence-to-sequence model.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "nn/data/lines.h"
#include "nn/generation/beam_search.h"
#include "nn/models/language_model.h"
#include "nn/report/run.h"
#include "nn/text/tokenizer.h"
#include "nn/text/vocabulary_table.h"
#include "nn/training/task.h"

namespace vitrine::nn::training {

/// How the texts of pairs become tokens, and tokens texts. Copies refer to the same tokenizer or
/// table, which must outlive them.
struct PairTokenizer {
  /// The tokens of the tokenizer, with the line break as the end. A tokenizer without one is an
  /// error.
  PairTokenizer(const Tokenizer& tokenizer);
  /// Words, which blanks separate, in a table with <unk> and <end>. With `unseen` above 0, words of
  /// the source that are not in the table are tokens too (nn/text/extended_vocabulary.h), as a
  /// PointerGenerator of as many unseen words expects them; else they are <unk>.
  PairTokenizer(const VocabularyTable& table, int64_t unseen);

  int64_t end;  ///< the token that begins and ends a target, and pads
  /// The tokens of a text, which is `source` or its target. An empty text is an error.
  std::function<std::vector<int64_t>(const std::string& text, const std::string& source)> encode;
  /// What a token adds to the text. `first`: the token begins the text.
  std::function<std::string(int64_t token, bool first, const std::string& source)> piece;
};

/// A batch of pairs for Seq2SeqModel::forward and a loss: sources [B, S] and their lengths [B],
/// what the decoder is given [B, T], from the end token on, and what it has to predict [B, T], up
/// to the end token. Sources and given targets are padded with the end token, the others with −100.
Batch translation_batch(std::span<const SentencePair> pairs, const PairTokenizer& tokenizer);

struct TranslationOptions {
  int64_t batch = 64;  ///< pairs of a batch, or with `tokens` the most of them
  uint64_t seed = 0;   ///< of the order of the pairs
  /// If above 0, a batch has pairs of similar length, and at most this many tokens with its padding
  /// (length_buckets)
  int64_t tokens = 0;
  double remove_longest = 0;  ///< the share of the pairs, the longest ones, that is left out
  int64_t prefetch = 2;       ///< batches that a thread makes ahead
};

/// The cross-entropy of the target's tokens, on batches of `training` in random order, and on all
/// pairs of `validation`. The task refers to the model; it has the settings that load_model needs.
Task translation(Seq2SeqModel& model, const PairTokenizer& tokenizer, Dataset<SentencePair> training,
                 Dataset<SentencePair> validation, const TranslationOptions& options);

/// The best translation of each text by beam search, of at most model.context() tokens.
std::vector<std::string> translate(Seq2SeqModel& model, const PairTokenizer& tokenizer,
                                   const std::vector<std::string>& texts, const BeamOptions& search = {});

/// The percentage of pairs whose translation is the target. No pairs is an error.
double percent_exact(Seq2SeqModel& model, const PairTokenizer& tokenizer,
                     const std::vector<SentencePair>& pairs, const BeamOptions& search = {});
/// BLEU of the translations (nn/metrics/bleu.h), with the targets as references.
double translation_bleu(Seq2SeqModel& model, const PairTokenizer& tokenizer,
                        const std::vector<SentencePair>& pairs, const BeamOptions& search = {});

/// Adds to the record the weights of each attention of the decoder for one pair as maps, with the
/// tokens to predict as rows and those of the source as columns. Without attention, nothing is
/// added.
void inspect_attention(Seq2SeqModel& model, const PairTokenizer& tokenizer, const SentencePair& pair,
                       report::RunRecord& record);

}  // namespace vitrine::nn::training
