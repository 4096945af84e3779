// Trains a GPT on any UTF-8 text, with attention and a tokenizer of your choice, and writes a
// report.
//
//   train_gpt --compare standard,laser
//   train_gpt --data shakespeare.txt --mixer laser+qk_norm --steps 2000
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "core/files/file.h"
#include "core/files/run_lock.h"
#include "core/parallel.h"
#include "core/version.h"
#include "examples/command_line.h"
#include "examples/default_text.h"
#include "examples/train_gpt_settings.h"
#include "nn/data/windows.h"
#include "nn/generation/generate.h"
#include "nn/models/gpt.h"
#include "nn/report/report.h"
#include "nn/report/seeds.h"
#include "nn/text/characters.h"
#include "nn/text/read_text.h"
#include "nn/text/tokenizer.h"
#include "nn/text/train_bpe.h"
#include "nn/text/words.h"
#include "nn/training/checkpoint.h"
#include "nn/training/interrupt.h"
#include "nn/training/sweep.h"
#include "nn/training/tasks/language_modeling.h"
#include "nn/training/trainer.h"

using namespace vitrine;
using namespace vitrine::nn;
using namespace vitrine::nn::report;
using namespace vitrine::nn::training;
using examples::Settings, examples::say;

namespace {

const char* const kExamples =
    "  train_gpt --compare standard,laser\n"
    "  train_gpt --compare optimizer=adamw,lion --compare lr=0.001,0.0003 --seeds 1,2,3\n"
    "  train_gpt --data shakespeare.txt --mixer laser+qk_norm --steps 2000 --out runs\n"
    "  train_gpt --config runs/laser+qk_norm.ini              repeats that run, bit for bit\n"
    "  train_gpt --config runs/laser+qk_norm.ini --resume runs/laser+qk_norm.safetensors --steps 4000 --new-schedule\n"
    "  sample runs/laser+qk_norm.safetensors                  generates text with its model";

Gpt make_model(const Settings& s, int64_t vocabulary) {
  GptOptions options = s.gpt;
  options.vocabulary = vocabulary;
  manual_seed(s.seed);
  Gpt model(options);
  model.to(dtype_of(s.dtype));
  if (s.gradients != "automatic") model.gradients_in(dtype_of(s.gradients));
  model.to(device_of(s.device));
  return model;
}

/// Attention maps of some validation windows, and a sample.
void show(Gpt& model, const Settings& s, const Tokenizer& tokenizer, const Tokens& validation,
          RunRecord& record) {
  inspect_attention(
      model, WindowLoader(validation, 4, model.options().context, 0).batch(0),
      [&](int64_t id) { return tokenizer.decode({id}); }, record);
  const Tokens prompt = tokenizer.encode(s.prompt);
  const Tokens all =
      generate(model, {prompt.begin(), prompt.end()}, s.sample, {.temperature = 0.8, .seed = s.seed});
  record.prompt = s.prompt;
  record.sample = tokenizer.decode(all.slice(prompt.size(), all.size()));
}

/// The settings that the report shows; --out and other file options are omitted.
void describe(RunRecord& record, const Settings& s, const Run& run, const Tokenizer& tokenizer,
              const Trainer& trainer) {
  record.method = run.method;
  record.seed = std::to_string(s.seed);
  record.name = run.name;
  record.settings = option_values(s, {Role::result, Role::schedule, Role::execution});
  record.settings.emplace_back("tokenizer", fmt::format("{}, {} tokens", tokenizer.kind(), tokenizer.size()));
  for (const ScheduleChange& change : trainer.schedule_changes())
    record.settings.emplace_back("new schedule", change.text());
}

/// Prints the results of a run.
void print_end(const Settings& s, const Run& run, const RunRecord& record, int64_t step) {
  if (interrupted()) {
    say(stdout, "\ninterrupted at step {}; go on with the same options and --resume {}\n", step,
        examples::quoted(run.go_on));
    return;
  }
  say(stdout, "{}: validation loss {:.4f} after {:.0f} s\n\n--- sample ---\n{}{}\n--------------\n\n",
      run.method, record.final_validation_loss, record.seconds, s.prompt == "\n" ? "" : s.prompt,
      record.sample);
}

/// A text as tokens: the first nine tenths of its characters, and the rest.
struct Corpus {
  std::unique_ptr<Tokenizer> tokenizer;
  Tokens training = {}, validation = {};
  std::string prompt = {};  ///< with which a sample begins by default
};

/// The vocabulary of characters has those of the whole text. The others learn from the training
/// part, so that the validation part is as unknown to them as it is to the model.
std::unique_ptr<Tokenizer> make_tokenizer(const Settings& s, const std::string& text,
                                          std::string_view training) {
  if (s.tokenizer == "bpe")
    return std::make_unique<PipelineTokenizer>(train_bpe(training, {.vocabulary = s.vocabulary}));
  if (s.tokenizer == "words") return std::make_unique<PipelineTokenizer>(train_words(training, s.vocabulary));
  return std::make_unique<CharacterVocabulary>(text);
}

Corpus read_corpus(const Settings& s) {
  const std::string text = s.data.empty() ? examples::default_text() : read_text(s.data);
  const auto cut = static_cast<int64_t>(0.9 * static_cast<double>(count_characters(text)));
  const std::string_view training = std::string_view(text).substr(0, position_of_character(text, cut));
  Corpus corpus{.tokenizer = make_tokenizer(s, text, training)};
  corpus.training = corpus.tokenizer->encode(training);
  corpus.validation = corpus.tokenizer->encode(std::string_view(text).substr(training.size()));
  corpus.prompt = text.find('\n') == text.npos ? text.substr(0, position_of_character(text, 1)) : "\n";
  return corpus;
}

/// An error during the training of the run becomes a FailedRun.
RunRecord train(Settings s, const Run& run, const Corpus& corpus) {
  const MatmulMathScope math(matmul_math_of(s.math));
  const Tokenizer& tokenizer = *corpus.tokenizer;
  Gpt model = make_model(s, tokenizer.size());
  Task task = language_modeling(model, corpus.training, corpus.validation, s.batch, s.seed);
  keep_tokenizer(task, tokenizer);
  if (s.gpt.residual == Residual::admin && run.resume.empty())
    initialize_admin(model.decoder, [&] { model.forward(task.batch(0).to(model.device()).tensors[0]); });
  TrainingOptions t = s.training;
  t.checkpoint = run.checkpoint;
  t.metrics = run.files + ".jsonl";
  t.run = fmt::format("{}, seed {}", run.method, s.seed);
  Trainer trainer(std::move(task), s.schedule.schedule(t.steps), t);
  if (!run.resume.empty()) {
    trainer.resume(run.resume);
    s.resume = keep_start(run, trainer);
    s.training.new_schedule = !s.resume.empty();
  }
  const std::string config = run.files + ".ini";
  write_config(config, options_of(s),
               fmt::format("Vitrine {}; repeat this run with train_gpt --config {}", version(),
                           examples::quoted(config)));
  say(stdout, "{}: {} parameters, {} training and {} validation tokens\n", run.method,
      model.parameter_count(), corpus.training.size(), corpus.validation.size());
  RunRecord& record = trainer.record();
  describe(record, s, run, tokenizer, trainer);
  try {
    trainer.run(interrupted);
    if (!interrupted()) show(model, s, tokenizer, corpus.validation, record);
  } catch (const std::exception& error) {
    say(stderr, "\ntrain_gpt: {}, seed {}: {}\n", run.method, s.seed, error.what());
    record.settings.emplace_back("steps made", fmt::format("{}, then: {}", trainer.step(), error.what()));
    throw FailedRun(error.what(), record);
  }
  if (trainer.step() < t.steps) record.settings.emplace_back("steps made", std::to_string(trainer.step()));
  print_end(s, run, record, trainer.step());
  return record;
}

/// Whether all runs finished or were stopped by Ctrl-C.
bool run(const Settings& given, const OptionList& options) {
  Settings s = examples::checked(given);
  auto runs = plan_runs(examples::axes_of(s, options), s.out, s.resume);
  for (const Run& one : runs) examples::settings_of_run(s, options, one);
  if (s.threads != 0) set_threads(s.threads);
  std::filesystem::create_directories(s.out);
  const RunLock lock("--out", s.out);
  check_can_write("--out", s.out + "/report.html");
  const Corpus corpus = read_corpus(s);
  if (s.prompt.empty()) s.prompt = corpus.prompt;
  // Errors in a later run or in the prompt are reported before training begins.
  corpus.tokenizer->encode(s.prompt);
  for (const Run& one : runs) {
    const Settings own = examples::settings_of_run(s, options, one);
    Gpt model = make_model(own, corpus.tokenizer->size());
    language_modeling(model, corpus.training, corpus.validation, own.batch, own.seed);
  }
  if (!s.training.checkpoint.empty()) runs[0].checkpoint = runs[0].go_on = s.training.checkpoint;
  const auto [trained, failed] = train_runs(
      runs, [&](const Run& one) { return train(examples::settings_of_run(s, options, one), one, corpus); },
      interrupted);
  if (!interrupted()) say(stdout, "{}", means_text(trained));
  // Failed runs are left out of a comparison. If all runs failed, the report shows their curves up
  // to the failure.
  write_report(s.out + "/report.html", "Training with Vitrine", trained.empty() ? failed : trained);
  say(stdout, "report: {}/report.html\n", s.out);
  return failed.empty();
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run_program("train_gpt", [&] {
    Settings s;
    OptionList options = options_of(s);
    examples::CommandLine line("train_gpt", "Trains a GPT on a text and writes a report.", kExamples);
    if (const auto code = line.parse(options, argc, argv)) return *code;
    catch_signals();
    return run(s, options) ? 0 : 1;
  });
}
