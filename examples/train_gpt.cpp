// Trains a character-level GPT on any UTF-8 text, with attention of your choice, and writes a report.
//
//   train_gpt --compare standard,laser
//   train_gpt --data shakespeare.txt --attention laser+qk_norm --steps 2000
#include <fmt/format.h>

#include <csignal>
#include <filesystem>
#include <map>
#include <numeric>

#include "core/file.h"
#include "core/parallel.h"
#include "core/safetensors.h"
#include "examples/train_gpt_settings.h"
#include "nn/generate.h"
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
  model.to(s.device == "cuda" ? Device::cuda : Device::cpu);
  return model;
}

/// What the names of the run's files begin with.
std::string file_name(const Settings& s, const std::string& attention) {
  std::string name = attention;
  std::replace(name.begin(), name.end(), '=', '-');
  return s.out + "/" + (s.seeds.size() > 1 ? fmt::format("{}-seed{}", name, s.seed) : name);
}

/// What went wrong while a run trained, and not before; with what it has shown until then.
struct FailedRun : Error {
  FailedRun(const std::string& what, RunReport shown) : Error(what), report(std::move(shown)) {}
  RunReport report;
};

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

/// One run, from the checkpoint s.resume if there is one; after Ctrl-C `go_on` is named, or its own checkpoint. What goes wrong
/// once it trains is a FailedRun.
RunReport train(const Settings& s, const std::string& attention, const CharacterVocabulary& vocabulary,
                const std::vector<int64_t>& training, const std::vector<int64_t>& validation,
                const std::string& go_on) {
  Gpt model = make_model(s, attention, vocabulary.size());
  const GptOptions& options = model.options();
  TrainingOptions t = s.training;
  if (t.checkpoint.empty()) t.checkpoint = file_name(s, attention) + ".safetensors";
  t.metrics = file_name(s, attention) + ".jsonl";
  const optim::Schedule schedule = examples::schedule_of(s);
  Trainer trainer(language_modeling(model, training, validation, s.batch, s.seed), schedule, t);
  if (!s.resume.empty()) trainer.resume(s.resume);
  fmt::print("{}: {} parameters, {} training and {} validation tokens\n", attention, model.parameter_count(),
             training.size(), validation.size());
  RunReport& report = trainer.report();
  report.vocabulary_size = vocabulary.size();
  report.method = attention;
  report.name = s.seeds.size() > 1 ? fmt::format("{}, seed {}", attention, s.seed) : attention;
  report.settings = {
      {"attention", attention},
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
    add_steps(fmt::format(", then: {}", error.what()));
    throw FailedRun(error.what(), report);
  }
  add_steps("");
  if (interrupted) {
    fmt::print("\ninterrupted at step {}; go on with the same options and --resume {}\n", trainer.step(),
               examples::quoted(go_on.empty() ? t.checkpoint : go_on));
    return report;
  }
  fmt::print("{}: validation loss {:.4f} after {:.0f} s\n\n--- sample ---\n{}{}\n--------------\n\n",
             attention, report.final_validation_loss, report.seconds, s.prompt == "\n" ? "" : s.prompt,
             report.sample);
  return report;
}

/// Two runs of one name would write the same files.
template <class T>
void refuse_twice(const char* flag, std::vector<T> values) {
  std::sort(values.begin(), values.end());
  const auto twice = std::adjacent_find(values.begin(), values.end());
  if (twice != values.end()) fail("{} names {} twice", flag, *twice);
}

struct Run {
  std::string attention;
  uint64_t seed;
};

/// Which of the runs a checkpoint is of.
size_t place_of(const std::string& checkpoint, const std::vector<Run>& runs) {
  auto saved = read_safetensors(checkpoint).metadata;
  const auto found = std::find_if(runs.begin(), runs.end(), [&](const Run& run) {
    return run.attention == saved["attention"] && std::to_string(run.seed) == saved["seed"];
  });
  check(found != runs.end(),
        "--resume: {} is of the attention \"{}\" and the seed \"{}\", none of these runs", checkpoint,
        saved["attention"], saved["seed"]);
  return static_cast<size_t>(found - runs.begin());
}

/// Whether all runs have come to their end, or to Ctrl-C.
bool run(const Settings& settings) {
  Settings s = settings;
  check(s.training.steps > 0 && s.sample >= 0, "--steps is {} and --sample is {}, wanted at least 1 and 0",
        s.training.steps, s.sample);
  check(s.training.checkpoint.empty() || s.one_run(),
        "--checkpoint names the file of one run: --compare and --seeds have several, in the folder --out");
  for (std::string& name : s.compare) std::erase(name, ' ');
  std::erase(s.attention, ' ');
  s.training = examples::training_of(s);
  examples::schedule_of(s);  // what is wrong with it is told once
  refuse_twice("--compare", s.compare);
  refuse_twice("--seeds", s.seeds);
  if (s.threads != 0) set_threads(s.threads);
  std::filesystem::create_directories(s.out);
  check_can_write("train_gpt", s.out + "/report.html");
  const std::string text = s.data.empty() ? own_source() : read_text(s.data);
  const CharacterVocabulary vocabulary(text);
  const auto tokens = vocabulary.encode(text);
  if (s.prompt.empty()) s.prompt = text.find('\n') == text.npos ? vocabulary.decode({tokens[0]}) : "\n";
  // What is wrong with a later attention, or with the prompt, is an error before anything is trained.
  vocabulary.encode(s.prompt);
  auto attentions = s.compare.empty() ? std::vector{s.attention} : s.compare;
  for (const std::string& name : attentions) make_model(s, name, vocabulary.size());
  const auto cut = tokens.begin() + static_cast<int64_t>(0.9 * static_cast<double>(tokens.size()));
  std::vector<Run> runs;
  for (const std::string& name : attentions)
    for (const uint64_t seed : s.seeds.empty() ? std::vector{s.seed} : s.seeds) runs.push_back({name, seed});
  const size_t resumed = s.resume.empty() ? 0 : place_of(s.resume, runs);
  std::vector<RunReport> reports, failed;
  std::map<std::string, std::vector<double>> losses;
  for (size_t i = 0; i < runs.size() && !(interrupted && !reports.empty()); ++i) {
    s.seed = runs[i].seed;
    const std::string finished = file_name(s, runs[i].attention) + ".safetensors";
    s.resume = i == resumed ? settings.resume : "";
    if (i < resumed && std::filesystem::exists(finished)) s.resume = finished;
    try {
      reports.push_back(train(s, runs[i].attention, vocabulary, {tokens.begin(), cut}, {cut, tokens.end()},
                              i < resumed ? settings.resume : ""));
      losses[runs[i].attention].push_back(reports.back().final_validation_loss);
    } catch (const FailedRun& error) {  // the others go on
      fmt::print(stderr, "\ntrain_gpt: {}, seed {}: {}\n", runs[i].attention, s.seed, error.what());
      failed.push_back(error.report);
    }
  }
  for (const std::string& name : attentions)
    if (const auto& all = losses[name]; all.size() > 1 && !interrupted)
      fmt::print("{}: mean validation loss {:.4f} of {} seeds\n", name,
                 std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size()), all.size());
  // Runs that failed would spoil a comparison; where there are no others, their curves say how it came to that.
  write_report(s.out + "/report.html", "Training with Vitrine", reports.empty() ? failed : reports);
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
