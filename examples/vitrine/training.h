// Training as `vitrine train`, `vitrine search` and train_gpt do it: a text, a model of it, and the
// files of a run.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "examples/train_gpt_settings.h"
#include "nn/report/run.h"
#include "nn/text/tokenizer.h"
#include "nn/training/sweep.h"

namespace vitrine::examples {

/// A text as tokens: the first nine tenths of its characters, and the rest.
struct Corpus {
  std::unique_ptr<nn::Tokenizer> tokenizer;
  nn::Tokens training = {}, validation = {};
  std::string prompt = {};     ///< with which a sample begins by default
  double tokens_per_byte = 0;  ///< of the rest; 0: its tokens do not give it back
};

/// A tokenizer of the kind "characters", "bpe", "word_piece" or "words". The vocabulary of
/// characters has those of the whole text. The others learn from the training part, so that the
/// rest is as unknown to them as it is to the model.
std::unique_ptr<nn::Tokenizer> make_tokenizer(const std::string& kind, int64_t vocabulary,
                                              const std::string& text, std::string_view training);

/// Reads --data and makes the tokenizer.
Corpus read_corpus(const Settings& s);

/// How a run is trained.
struct TrainCall {
  std::string program;         ///< "vitrine train", for messages and configurations
  std::function<bool()> stop;  ///< ends the run after the current step
  int64_t until = INT64_MAX;   ///< the run ends here; going on needs its checkpoint
  bool shows = true;           ///< attention and a sample, at the end of the run
  /// Called after the last step, before the record is kept
  std::function<void(nn::training::Trainer&)> at_end = {};
};

/// Trains one run and writes its files; makes their folder. An error during the training becomes a
/// FailedRun.
nn::report::RunRecord train_run(Settings s, const nn::training::Run& run, const Corpus& corpus,
                                const TrainCall& call);

/// Trains all runs that the settings compare, and writes their report. `given` is the list that the
/// command line has filled. Returns whether all runs finished or were stopped by Ctrl-C.
bool train_runs(const std::string& program, const Settings& given, const nn::OptionList& options,
                nn::training::Layout layout);

}  // namespace vitrine::examples
