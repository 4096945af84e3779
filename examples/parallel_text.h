// What programs that translate have in common: generated dates, or parallel text from files.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/error.h"
#include "nn/data/lines.h"
#include "nn/data/synthetic/dates.h"
#include "nn/options.h"
#include "nn/text/characters.h"
#include "nn/text/train_bpe.h"
#include "nn/training/tasks/translation.h"

namespace vitrine::examples {

/// Pairs, and their tokens: characters of dates, and byte pairs of other texts. A translation of a
/// date is right or wrong. Other texts have many good translations, which BLEU compares with the
/// given one.
struct ParallelText {
  nn::Dataset<nn::SentencePair> training, held_out;
  std::unique_ptr<nn::Tokenizer> tokenizer;
  bool is_text = false;

  const char* measure() const { return is_text ? "BLEU" : "% right"; }
  /// The measure of the model on these pairs.
  double quality(nn::Seq2SeqModel& model, const std::vector<nn::SentencePair>& pairs,
                 const nn::BeamOptions& search) const {
    return (is_text ? nn::training::translation_bleu : nn::training::percent_exact)(model, *tokenizer, pairs,
                                                                                    search);
  }
};

struct ParallelTextOptions {
  std::vector<std::string> data, validation;
  int64_t vocabulary = 4000, tokens = 0;
  double remove_longest = 0;

  void list(nn::OptionList& o) {
    o.group("Data");
    o("data", data, "source and target file, lines that belong together; by default dates")
        .decides(nn::Role::files);
    o("validation", validation, "the same for validation").decides(nn::Role::files);
    o("vocabulary", vocabulary, "tokens of BPE, for --data").at_least(257);
    o("tokens", tokens, "batches of pairs of similar length, of at most so many tokens; 0: in random order")
        .at_least(0);
    o("remove-longest", remove_longest, "the share of the pairs, the longest ones, that is left out")
        .at_least(0)
        .below(1);
  }
  nn::training::TranslationOptions batches(int64_t batch, uint64_t seed) const {
    return {.batch = batch, .seed = seed, .tokens = tokens, .remove_longest = remove_longest};
  }

  ParallelText read() const {
    using namespace nn::synthetic;
    const auto some_dates = [](Part part, int64_t size) {
      return nn::mapped(dates(part, size), [](const WrittenDate& d) {
        return nn::SentencePair{d.written, d.iso};
      });
    };
    if (data.empty())
      return {some_dates(Part::training, 50000), some_dates(Part::held_out, 999),
              std::make_unique<nn::CharacterVocabulary>("\n ,-.0123456789abcdefghijklmnopqrstuvwxyz")};
    check(data.size() == 2 && validation.size() == 2,
          "{} and {} files of --data and --validation, wanted two each", data.size(), validation.size());
    const auto pairs = nn::read_parallel_text(data[0], data[1]);
    std::string text;
    for (const nn::SentencePair& pair : pairs) text += pair.source + "\n" + pair.target + "\n";
    return {pairs, nn::read_parallel_text(validation[0], validation[1]),
            std::make_unique<nn::PipelineTokenizer>(nn::train_bpe(text, {.vocabulary = vocabulary})), true};
  }
};

}  // namespace vitrine::examples
