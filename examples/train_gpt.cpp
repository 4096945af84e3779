// Trains a character-level GPT on any UTF-8 text, with attention of your choice, and writes a report.
//
//   train_gpt --compare standard,laser
//   train_gpt --data shakespeare.txt --attention laser+qk_norm --steps 2000
#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <iostream>

#include "core/files/file.h"
#include "core/files/run_lock.h"
#include "core/parallel.h"
#include "examples/train_gpt_settings.h"
#include "nn/data/windows.h"
#include "nn/generation/generate.h"
#include "nn/report/report.h"
#include "nn/report/seeds.h"
#include "nn/text/characters.h"
#include "nn/text/read_text.h"
#include "nn/text/tokens.h"
#include "nn/training/sweep.h"
#include "nn/training/tasks/language_modeling.h"
#include "nn/training/trainer.h"

using namespace vitrine;
using namespace vitrine::nn;
using namespace vitrine::nn::report;
using namespace vitrine::nn::training;
using examples::Settings;

namespace {

volatile std::sig_atomic_t interrupted = 0;  // the signal that asks the program to end

/// Prints. Whether standard output has taken all is checked at the end, so that a full disk costs no training.
template <class... Args>
void say(std::FILE* stream, fmt::format_string<Args...> format, Args&&... args) {
  std::fputs(fmt::format(format, std::forward<Args>(args)...).c_str(), stream);
}

/// Ctrl-C, and SIGTERM as batch systems send it, end the training after the step that runs. A second Ctrl-C ends the program at
/// once; SIGTERM may come more than once.
void catch_signals() {
  for (const int signal : {SIGINT, SIGTERM})
    std::signal(signal, [](int caught) {
      interrupted = caught;
      if (caught == SIGINT) std::signal(SIGINT, SIG_DFL);
    });
}

/// Vitrine's own source and documentation, in a fixed order.
std::string own_source() {
  std::vector<std::filesystem::path> files;
  for (const char* folder : {"core", "ops", "nn", "optim", "cuda", "examples", "docs"}) {
    const auto root = std::filesystem::path(VITRINE_SOURCE_DIR) / folder;
    if (!std::filesystem::exists(root)) continue;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root))
      for (const char* extension : {".h", ".cpp", ".cu", ".md"})
        if (entry.path().extension() == extension) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::string text;
  for (const auto& file : files) text += read_text(file.string());
  check(!text.empty(), "the default text, Vitrine's own source in {}, is not there; give a text with --data",
        VITRINE_SOURCE_DIR);
  return text;
}

Gpt make_model(const Settings& s, int64_t vocabulary) {
  GptOptions options = s.gpt;
  options.vocabulary = vocabulary;
  options.attention = s.attention;
  options.positions = positions_of(s.positions);
  options.activation = activation_of(s.activation);
  options.norm = norm_kind_of(s.norm);
  options.pre_norm = !s.post_norm;
  options.bias = s.no_bias ? Bias::no : Bias::yes;
  manual_seed(s.seed);
  Gpt model(options);
  model.to(dtype_of(s.dtype));
  model.to(device_of(s.device));
  return model;
}

/// Attention maps of some validation windows, and a sample.
void show(Gpt& model, const Settings& s, const CharacterVocabulary& vocabulary, const Tokens& validation,
          RunRecord& record) {
  inspect_attention(
      model, WindowLoader(validation, 4, model.options().context, 0).batch(0),
      [&](int64_t id) { return vocabulary.decode({id}); }, record);
  const Tokens prompt = vocabulary.encode(s.prompt);
  const Tokens all =
      generate(model, {prompt.begin(), prompt.end()}, s.sample, {.temperature = 0.8, .seed = s.seed});
  record.prompt = s.prompt;
  record.sample = vocabulary.decode(all.slice(prompt.size(), all.size()));
}

/// What goes wrong once the run trains is a FailedRun.
RunRecord train(const Settings& given, const Run& run, const CharacterVocabulary& vocabulary,
                const Tokens& training, const Tokens& validation) {
  const Settings s = examples::settings_of_run(given, run);
  Gpt model = make_model(s, vocabulary.size());
  const GptOptions& options = model.options();
  TrainingOptions t = s.training;
  t.checkpoint = run.checkpoint;
  t.metrics = run.files + ".jsonl";
  t.run = fmt::format("{}, seed {}", run.method, s.seed);
  const optim::Schedule schedule = examples::schedule_of(s);
  Trainer trainer(language_modeling(model, training, validation, s.batch, s.seed), schedule, t);
  if (!run.resume.empty()) trainer.resume(run.resume);
  say(stdout, "{}: {} parameters, {} training and {} validation tokens\n", run.method,
      model.parameter_count(), training.size(), validation.size());
  RunRecord& record = trainer.record();
  record.method = run.method;
  record.seed = std::to_string(s.seed);
  record.name = run.name;
  record.settings = {
      {"attention", s.attention},
      {"layers", std::to_string(options.layers)},
      {"heads", std::to_string(options.heads)},
      {"width", std::to_string(options.width)},
      {"context", std::to_string(options.context)},
      {"feed-forward", s.activation},
      {"norm", fmt::format("{}, {}", s.norm, s.post_norm ? "post" : "pre")},
      {"batch", std::to_string(s.batch)},
      {"optimizer", t.optimizer},
      {"learning rate", fmt::format("{} to {:.3g}, {}", s.lr, schedule(t.steps - 1), s.schedule)},
      {"dtype", s.dtype},
      {"device", s.device},
      {"seed", std::to_string(s.seed)}};
  const auto add_steps = [&](const std::string& more) {
    record.settings.emplace_back("steps", std::to_string(trainer.step()) + more);
  };
  try {
    trainer.run([] { return interrupted != 0; });
    if (!interrupted) show(model, s, vocabulary, validation, record);
  } catch (const std::exception& error) {
    say(stderr, "\ntrain_gpt: {}, seed {}: {}\n", run.method, s.seed, error.what());
    add_steps(fmt::format(", then: {}", error.what()));
    throw FailedRun(error.what(), record);
  }
  add_steps("");
  if (interrupted) {
    say(stdout, "\ninterrupted at step {}; go on with the same options and --resume {}\n", trainer.step(),
        examples::quoted(run.go_on));
    return record;
  }
  say(stdout, "{}: validation loss {:.4f} after {:.0f} s\n\n--- sample ---\n{}{}\n--------------\n\n",
      run.method, record.final_validation_loss, record.seconds, s.prompt == "\n" ? "" : s.prompt,
      record.sample);
  return record;
}

/// Whether all runs have come to their end, or to Ctrl-C.
bool run(const Settings& given, const std::vector<SweepAxis>& axes) {
  Settings s = examples::checked(given);
  if (s.threads != 0) set_threads(s.threads);
  std::filesystem::create_directories(s.out);
  const RunLock lock("--out", s.out);
  check_can_write("--out", s.out + "/report.html");
  std::string text = s.data.empty() ? own_source() : read_text(s.data);
  const CharacterVocabulary vocabulary(text);
  const Tokens tokens = vocabulary.encode(text);
  const auto cut = static_cast<int64_t>(0.9 * static_cast<double>(tokens.size()));
  if (s.prompt.empty()) s.prompt = text.find('\n') == text.npos ? vocabulary.decode({tokens[0]}) : "\n";
  text = std::string();  // the tokens suffice from here on
  // What is wrong with a later run, or with the prompt, is an error before anything is trained.
  vocabulary.encode(s.prompt);
  auto runs = plan_runs(axes, s.out, s.resume);
  for (const Run& one : runs) make_model(examples::settings_of_run(s, one), vocabulary.size());
  if (!s.training.checkpoint.empty()) runs[0].checkpoint = runs[0].go_on = s.training.checkpoint;
  const auto [trained, failed] = train_runs(
      runs,
      [&](const Run& one) {
        return train(s, one, vocabulary, tokens.slice(0, cut), tokens.slice(cut, tokens.size()));
      },
      [] { return interrupted != 0; });
  if (!interrupted) say(stdout, "{}", means_text(trained));
  // Runs that failed would spoil a comparison; where there are no others, their curves say how it came to that.
  write_report(s.out + "/report.html", "Training with Vitrine", trained.empty() ? failed : trained);
  say(stdout, "report: {}/report.html\n", s.out);
  return failed.empty();
}

}  // namespace

int main(int argc, char** argv) {
  Settings s;
  CLI::App app("Trains a character-level GPT and writes a report.");
  int code = 0;
  try {
    examples::add_options(app, s);
    app.parse(argc, argv);
    catch_signals();
    s.compare = examples::checked(s).compare;
    if (!run(s, examples::axes_of(app, s))) code = 1;
  } catch (const CLI::ParseError& error) {  // a wrong option, or --help
    code = app.exit(error);
  } catch (const std::exception& error) {
    say(stderr, "train_gpt: {}\n", error.what());
    code = 1;
  }
  if (code == 0 && interrupted) code = 128 + interrupted;  // as shells have it
  std::cout.flush();
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    say(stderr, "train_gpt: cannot write to standard output\n");
    if (code == 0) code = 1;
  }
  return code;
}
