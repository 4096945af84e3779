#include "examples/vitrine/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "core/files/file.h"
#include "core/files/run_lock.h"
#include "core/parallel.h"
#include "core/version.h"
#include "examples/command_line.h"
#include "examples/default_text.h"
#include "nn/config_file.h"
#include "nn/data/windows.h"
#include "nn/generation/generate.h"
#include "nn/metrics/perplexity.h"
#include "nn/report/record_file.h"
#include "nn/report/report.h"
#include "nn/report/seeds.h"
#include "nn/text/characters.h"
#include "nn/text/train_bpe.h"
#include "nn/text/train_word_piece.h"
#include "nn/text/words.h"
#include "nn/training/checkpoint.h"
#include "nn/training/inspect_parts.h"
#include "nn/training/interrupt.h"
#include "nn/training/tasks/language_modeling.h"

namespace vitrine::examples {

using namespace nn;
using namespace nn::report;
using namespace nn::training;

namespace {

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

/// Attention maps of some validation windows, what experts and universal blocks do with them, and a
/// sample.
void show(Gpt& model, const Settings& s, const Tokenizer& tokenizer, const Tokens& validation,
          RunRecord& record) {
  const Batch windows = WindowLoader(validation, 4, model.options().context, 0).batch(0);
  inspect_attention(
      model, windows, [&](int64_t id) { return tokenizer.decode({id}); }, record);
  inspect_parts(model, windows.tensors[0], record);
  if (s.sample == 0) return;
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
  say(stdout, "{}: validation loss {:.4f} after {:.0f} s\n\n", run.method, record.final_validation_loss,
      record.seconds);
  if (s.sample > 0)
    say(stdout, "--- sample ---\n{}{}\n--------------\n\n", s.prompt == "\n" ? "" : s.prompt, record.sample);
}

}  // namespace

std::unique_ptr<Tokenizer> make_tokenizer(const std::string& kind, int64_t vocabulary,
                                          const std::string& text, std::string_view training) {
  if (kind == "bpe")
    return std::make_unique<PipelineTokenizer>(train_bpe(training, {.vocabulary = vocabulary}));
  if (kind == "word_piece")
    return std::make_unique<PipelineTokenizer>(train_word_piece(training, {.vocabulary = vocabulary}));
  if (kind == "words") return std::make_unique<PipelineTokenizer>(train_words(training, vocabulary));
  return std::make_unique<CharacterVocabulary>(text);
}

Corpus read_corpus(const Settings& s) {
  const std::string text = s.data.empty() ? default_text() : read_text(s.data);
  const auto cut = static_cast<int64_t>(0.9 * static_cast<double>(count_characters(text)));
  const std::string_view training = std::string_view(text).substr(0, position_of_character(text, cut));
  Corpus corpus{.tokenizer = make_tokenizer(s.tokenizer, s.vocabulary, text, training)};
  corpus.training = corpus.tokenizer->encode(training);
  const std::string_view rest = std::string_view(text).substr(training.size());
  corpus.validation = corpus.tokenizer->encode(rest);
  if (corpus.tokenizer->decode(corpus.validation) == rest)
    corpus.tokens_per_byte = static_cast<double>(corpus.validation.size()) / static_cast<double>(rest.size());
  corpus.prompt = text.find('\n') == text.npos ? text.substr(0, position_of_character(text, 1)) : "\n";
  if (corpus.training.size() > 0 && corpus.tokenizer->encode(corpus.prompt).size() == 0)
    corpus.prompt = corpus.tokenizer->decode(corpus.training.slice(0, 1));
  return corpus;
}

RunRecord train_run(Settings s, const Run& run, const Corpus& corpus, const TrainCall& call) {
  const MatmulMathScope math(matmul_math_of(s.math));
  const Tokenizer& tokenizer = *corpus.tokenizer;
  Gpt model = make_model(s, tokenizer.size());
  Task task = language_modeling(model, corpus.training, corpus.validation, s.batch, s.seed);
  keep_tokenizer(task, tokenizer);
  if (corpus.tokens_per_byte > 0) task.metrics.push_back(bits_per_byte_metric(corpus.tokens_per_byte));
  if (s.gpt.residual == Residual::admin && run.resume.empty())
    initialize_admin(model.decoder, [&] { model.forward(task.batch(0).to(model.device()).tensors[0]); });
  std::filesystem::create_directories(std::filesystem::path(run.config).parent_path());
  TrainingOptions t = s.training;
  t.checkpoint = run.checkpoint;
  t.metrics = run.metrics;
  if (!t.tensorboard.empty()) t.tensorboard += "/" + run.file;
  t.run = fmt::format("{}, seed {}", run.method, s.seed);
  Trainer trainer(std::move(task), s.schedule.schedule(t.steps), t);
  if (!run.resume.empty()) {
    trainer.resume(run.resume);
    s.resume = keep_start(run, trainer);
    s.training.new_schedule = !s.resume.empty();
  }
  write_config(run.config, options_of(s),
               fmt::format("Vitrine {}; repeat this run with {} --config {}", version(), call.program,
                           examples::quoted(run.config)));
  say(stdout, "{}: {} parameters, {} training and {} validation tokens\n", run.method,
      model.parameter_count(), corpus.training.size(), corpus.validation.size());
  RunRecord& record = trainer.record();
  describe(record, s, run, tokenizer, trainer);
  try {
    trainer.run([&] { return call.stop() || trainer.step() >= call.until; });
    if (call.at_end) call.at_end(trainer);
    if (call.shows && (trainer.step() == t.steps || trainer.is_out_of_patience()))
      show(model, s, tokenizer, corpus.validation, record);
  } catch (const std::exception& error) {
    say(stderr, "\n{}: {}, seed {}: {}\n", call.program, run.method, s.seed, error.what());
    record.settings.emplace_back("steps made", fmt::format("{}, then: {}", trainer.step(), error.what()));
    throw FailedRun(error.what(), record);
  }
  if (trainer.step() < t.steps) record.settings.emplace_back("steps made", std::to_string(trainer.step()));
  if (!run.record.empty()) write_record(run.record, record);
  if (!run.report.empty()) write_report(run.report, run.name, {record});
  return record;
}

bool train_runs(const std::string& program, const Settings& given, const OptionList& options, Layout layout) {
  Settings s = checked(given);
  auto runs = plan_runs(axes_of(s, options), s.out, s.resume, layout);
  for (const Run& one : runs) settings_of_run(s, options, one);
  if (s.threads != 0) set_threads(s.threads);
  std::filesystem::create_directories(s.out);
  const RunLock lock("--out", s.out);
  check_can_write("--out", s.out + "/report.html");
  const Corpus corpus = read_corpus(s);
  if (s.prompt.empty()) s.prompt = corpus.prompt;
  // Errors in a later run or in the prompt are reported before training begins.
  const int64_t of_prompt = corpus.tokenizer->encode(s.prompt).size();
  check(s.sample == 0 || of_prompt > 0,
        "--prompt: the tokenizer {} makes no token of it, wanted at least one", s.tokenizer);
  for (const Run& one : runs) {
    const Settings own = settings_of_run(s, options, one);
    Gpt model = make_model(own, corpus.tokenizer->size());
    language_modeling(model, corpus.training, corpus.validation, own.batch, own.seed);
  }
  if (!s.training.checkpoint.empty()) runs[0].checkpoint = runs[0].go_on = s.training.checkpoint;
  const auto train = [&](const Run& one) {
    const Settings own = settings_of_run(s, options, one);
    int64_t step = 0;
    const auto note_step = [&](const Trainer& trainer) { step = trainer.step(); };
    const RunRecord record =
        train_run(own, one, corpus, {.program = program, .stop = interrupted, .at_end = note_step});
    print_end(own, one, record, step);
    return record;
  };
  const auto [trained, failed] = training::train_runs(runs, train, interrupted);
  if (!interrupted()) say(stdout, "{}", means_text(trained));
  // Failed runs are left out of a comparison. If all runs failed, the report shows their curves up
  // to the failure.
  write_report(s.out + "/report.html", "Training with Vitrine", trained.empty() ? failed : trained);
  say(stdout, "report: {}/report.html\n", s.out);
  return failed.empty();
}

}  // namespace vitrine::examples
