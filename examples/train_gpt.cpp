// Trains a character-level GPT on any UTF-8 text, with attention of your choice, and writes a report.
//
//   train_gpt --compare standard,laser
//   train_gpt --data shakespeare.txt --attention laser+qk_norm --steps 2000
#include <fmt/format.h>

#include <csignal>
#include <filesystem>

#include "core/file.h"
#include "core/parallel.h"
#include "examples/train_gpt_settings.h"
#include "nn/generate.h"
#include "nn/training/comparison.h"
#include "nn/training/language_modeling.h"
#include "nn/training/text_data.h"
#include "nn/training/trainer.h"

using namespace vitrine;
using namespace vitrine::nn;
using namespace vitrine::nn::training;
using examples::Settings;

namespace {

volatile std::sig_atomic_t interrupted = 0;

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

Gpt make_model(const Settings& s, const std::string& attention, int64_t vocabulary) {
  GptOptions options = s.gpt;
  options.vocabulary = vocabulary;
  options.attention = attention;
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
void show(Gpt& model, const Settings& s, const CharacterVocabulary& vocabulary,
          const std::vector<int64_t>& validation, RunReport& report) {
  inspect_attention(
      model, WindowLoader(validation, 4, model.options().context, 0).batch(0),
      [&](int64_t id) { return vocabulary.decode({id}); }, report);
  const auto prompt = vocabulary.encode(s.prompt);
  const auto all = generate(model, prompt, s.sample, {.temperature = 0.8, .seed = s.seed});
  report.prompt = s.prompt;
  report.sample = vocabulary.decode({all.begin() + static_cast<int64_t>(prompt.size()), all.end()});
}

/// What goes wrong once the run trains is a FailedRun.
RunReport train(const Settings& s, const Run& run, const CharacterVocabulary& vocabulary,
                const std::vector<int64_t>& training, const std::vector<int64_t>& validation) {
  Gpt model = make_model(s, run.attention, vocabulary.size());
  const GptOptions& options = model.options();
  TrainingOptions t = s.training;
  t.checkpoint = run.checkpoint;
  t.metrics = run.files + ".jsonl";
  t.run = fmt::format("{}, seed {}", run.attention, s.seed);
  const optim::Schedule schedule = examples::schedule_of(s);
  Trainer trainer(language_modeling(model, training, validation, s.batch, s.seed), schedule, t);
  if (!run.resume.empty()) trainer.resume(run.resume);
  fmt::print("{}: {} parameters, {} training and {} validation tokens\n", run.attention,
             model.parameter_count(), training.size(), validation.size());
  RunReport& report = trainer.report();
  report.vocabulary_size = vocabulary.size();
  report.method = run.attention;
  report.name = run.name;
  report.settings = {
      {"attention", run.attention},
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
    report.settings.emplace_back("steps", std::to_string(trainer.step()) + more);
  };
  try {
    trainer.run([] { return interrupted != 0; });
    if (!interrupted) show(model, s, vocabulary, validation, report);
  } catch (const std::exception& error) {
    fmt::print(stderr, "\ntrain_gpt: {}, seed {}: {}\n", run.attention, s.seed, error.what());
    add_steps(fmt::format(", then: {}", error.what()));
    throw FailedRun(error.what(), report);
  }
  add_steps("");
  if (interrupted) {
    fmt::print("\ninterrupted at step {}; go on with the same options and --resume {}\n", trainer.step(),
               examples::quoted(run.go_on));
    return report;
  }
  fmt::print("{}: validation loss {:.4f} after {:.0f} s\n\n--- sample ---\n{}{}\n--------------\n\n",
             run.attention, report.final_validation_loss, report.seconds, s.prompt == "\n" ? "" : s.prompt,
             report.sample);
  return report;
}

/// The mean over seeds.
void print_means(const std::vector<RunReport>& reports, const std::vector<std::string>& attentions) {
  for (const std::string& name : attentions) {
    double sum = 0;
    int seeds = 0;
    for (const RunReport& report : reports)
      if (report.method == name) sum += report.final_validation_loss, ++seeds;
    if (seeds > 1) fmt::print("{}: mean validation loss {:.4f} of {} seeds\n", name, sum / seeds, seeds);
  }
}

/// Whether all runs have come to their end, or to Ctrl-C.
bool run(const Settings& given) {
  Settings s = examples::checked(given);
  if (s.threads != 0) set_threads(s.threads);
  std::filesystem::create_directories(s.out);
  check_can_write("train_gpt", s.out + "/report.html");
  const std::string text = s.data.empty() ? own_source() : read_text(s.data);
  const CharacterVocabulary vocabulary(text);
  const auto tokens = vocabulary.encode(text);
  const auto cut = tokens.begin() + static_cast<int64_t>(0.9 * static_cast<double>(tokens.size()));
  if (s.prompt.empty()) s.prompt = text.find('\n') == text.npos ? vocabulary.decode({tokens[0]}) : "\n";
  // What is wrong with a later attention, or with the prompt, is an error before anything is trained.
  vocabulary.encode(s.prompt);
  const auto attentions = s.compare.empty() ? std::vector{s.attention} : s.compare;
  for (const std::string& name : attentions) make_model(s, name, vocabulary.size());
  auto runs = plan_runs(attentions, s.seeds.empty() ? std::vector{s.seed} : s.seeds, s.out, s.resume);
  if (!s.training.checkpoint.empty()) runs[0].checkpoint = runs[0].go_on = s.training.checkpoint;
  const auto [trained, failed] = train_runs(
      runs,
      [&](const Run& one) {
        s.seed = one.seed;
        return train(s, one, vocabulary, {tokens.begin(), cut}, {cut, tokens.end()});
      },
      [] { return interrupted != 0; });
  if (!interrupted) print_means(trained, attentions);
  // Runs that failed would spoil a comparison; where there are no others, their curves say how it came to that.
  write_report(s.out + "/report.html", "Training with Vitrine", trained.empty() ? failed : trained);
  fmt::print("report: {}/report.html\n", s.out);
  return failed.empty();
}

}  // namespace

int main(int argc, char** argv) {
  Settings s;
  CLI::App app("Trains a character-level GPT and writes a report.");
  examples::add_options(app, s);
  CLI11_PARSE(app, argc, argv);
  std::signal(SIGINT, [](int signal) {
    interrupted = 1;
    std::signal(signal, SIG_DFL);  // a second one ends the program at once
  });
  try {
    if (!run(s)) return 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "train_gpt: {}\n", error.what());
    return 1;
  }
  return interrupted ? 130 : 0;  // as shells have it
}
