// The command line of train_gpt, which a configuration file may hold too.
#pragma once

#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/memory/machine.h"
#include "examples/config_file.h"
#include "nn/models/gpt.h"
#include "nn/training/sweep.h"
#include "nn/training/trainer.h"

namespace vitrine::examples {

struct Settings {
  std::string data, out = "reports", attention = "standard", resume, device = "cpu", dtype = "float32",
                    schedule = "cosine", positions = "automatic", prompt, activation = "gelu_tanh",
                    norm = "layer";
  bool post_norm = false, no_bias = false;
  std::vector<std::string> compare;
  std::vector<uint64_t> seeds;
  nn::GptOptions gpt;
  nn::training::TrainingOptions training;
  double lr = 1e-3;
  std::optional<double> final_lr, beta1, beta2, momentum;
  std::optional<int64_t> warmup;
  int64_t batch = 12, sample = 300;
  uint64_t seed = 1;
  int threads = 0;
  bool one_run() const { return compare.empty() && seeds.empty(); }
};

/// A whole number, or an error that says what came: CLI11 takes −1 for the largest unsigned one, and what is too large for the last.
template <class T>
std::string not_whole(const std::string& text) {
  T number{};
  size_t begin = std::min(text.find_first_not_of(' '), text.size());
  if (begin < text.size() && text[begin] == '+') ++begin;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data() + begin, end, number);
  if (error == std::errc() && rest == end) return "";
  return fmt::format("{} is no whole number from {} to {}", text, std::numeric_limits<T>::min(),
                     std::numeric_limits<T>::max());
}

inline void add_options(CLI::App& app, Settings& s) {
  const auto whole = [&app](const char* name, auto& number, const char* help) {
    return app.add_option(name, number, help)->check(not_whole<std::remove_reference_t<decltype(number)>>);
  };
  app.config_formatter(std::make_shared<ConfigFile>(app));
  app.set_config("--config", "", "a file with these options as name = value, a line each")
      ->check(CLI::ExistingFile);
  app.allow_config_extras(CLI::config_extras_mode::error)->option_defaults()->take_last();
  app.add_option("--data", s.data, "UTF-8 text; by default Vitrine's own source");
  app.add_option("--attention", s.attention, "parts joined by +:\n" + nn::attention_parts());
  app.add_option(
         "--compare", s.compare,
         "several attentions, or OPTION=VALUE,VALUE,… of any option, repeatable: each value with each "
         "of the others, on the same data and seeds")
      ->delimiter(',');
  app.add_option("--resume", s.resume,
                 "a checkpoint to go on from, of one of these runs; those before it are taken from "
                 "--out, those after it are trained");
  app.add_option("--seeds", s.seeds,
                 "train with each of these seeds, and print the means; in place of --seed")
      ->delimiter(',');
  app.add_option("--prompt", s.prompt, "what the sample starts with; by default a new line");
  app.add_option("--checkpoint", s.training.checkpoint,
                 "where to save; by default in --out, by the run's name");
  app.add_option("--best-by", s.training.best_by,
                 "also keep the model that is the best by loss or perplexity, beside the checkpoint");
  app.add_option("--warmup", s.warmup,
                 "steps of warmup; at most half of all, and at least one of noam and inverse_sqrt [100]")
      ->check(not_whole<int64_t>);
  app.add_option("--final-lr", s.final_lr,
                 "learning rate at the end of cosine and linear [0.0001, or --lr where that is less]");
  const auto number = [](double x) { return fmt::format(" [{}]", x); };
  app.add_option("--momentum", s.momentum, "of sgd and rmsprop" + number(s.training.momentum));
  app.add_option("--beta1", s.beta1, "of Adam and its relatives" + number(s.training.beta1));
  app.add_option("--beta2", s.beta2, "of Adam and its relatives, and of rmsprop" + number(s.training.beta2));
  app.add_flag("--nesterov", s.training.nesterov, "Nesterov's momentum, of sgd");
  app.add_flag("--post-norm", s.post_norm,
               "norms behind the sums instead of before attention and feed-forward");
  app.add_flag("--no-bias", s.no_bias, "linear layers without bias");
  app.add_flag("--graph", s.training.graph, "replay the step as a CUDA graph, of --device cuda");
  app.add_flag("--checkpoint-blocks", s.gpt.recompute_blocks,
               "less memory: compute blocks again in the backward");
  app.option_defaults()->always_capture_default();
  app.add_option("--out", s.out, "folder for report, checkpoints and metrics");
  whole("--sample", s.sample, "characters to sample");
  whole("--steps", s.training.steps, "optimizer steps");
  whole("--batch", s.batch, "sequences per micro-batch");
  whole("--accumulate", s.training.accumulate, "micro-batches per step");
  whole("--evaluate-every", s.training.evaluate_every, "steps between validation losses");
  whole("--save-every", s.training.save_every, "steps between checkpoints; 0: at the end alone");
  whole("--layers", s.gpt.layers, "blocks");
  whole("--heads", s.gpt.heads, "query heads");
  whole("--key-heads", s.gpt.key_heads, "key heads; 0: as many as query heads");
  whole("--width", s.gpt.width, "channels");
  whole("--context", s.gpt.context, "longest sequence");
  whole("--hidden", s.gpt.hidden, "size of the feed-forward layer; 0: four times the width");
  app.add_option("--activation", s.activation, "relu, gelu, gelu_tanh, silu or swiglu");
  app.add_option("--norm", s.norm, "layer or rms");
  app.add_option("--dropout", s.gpt.dropout, "probability");
  app.add_option("--positions", s.positions, "automatic, learned, sinusoidal or none");
  app.add_option("--optimizer", s.training.optimizer, optim::optimizer_names());
  app.add_option("--schedule", s.schedule, optim::schedule_names());
  app.add_option("--weight-decay", s.training.weight_decay, "of matrices");
  app.add_option("--clip", s.training.clip, "largest norm of the gradients; 0: none");
  app.add_option("--lr", s.lr, "highest learning rate");
  app.add_option("--dtype", s.dtype, "with float32 masters in 16 bits; float16 scales the loss")
      ->check(CLI::IsMember({"float32", "float64", "bfloat16", "float16"}));
  app.add_option("--device", s.device,
                 "cpu, cuda or cuda:1 (in builds without nvcc the emulator's, which is slow)");
  auto* seed = whole("--seed", s.seed, "of everything random");
  app.get_option("--seeds")->check(not_whole<uint64_t>)->excludes(seed);
  whole("--threads", s.threads, "0: all cores");
}

/// What is given for the optimizer must be what it has.
inline nn::training::TrainingOptions training_of(const Settings& s) {
  nn::training::TrainingOptions t = s.training;
  check(!t.graph || !device_of(s.device).is_cpu(), "--graph: there are CUDA graphs with --device cuda alone");
  const auto take = [&t](const char* name, const std::optional<double>& given, double& option) {
    const bool known = optim::has_option(t.optimizer, name);  // an error for no optimizer, too
    check(!given || known, "--{}: the optimizer {} has none", name, t.optimizer);
    option = given.value_or(option);
  };
  take("beta1", s.beta1, t.beta1), take("beta2", s.beta2, t.beta2), take("momentum", s.momentum, t.momentum);
  return t;
}

/// noam and inverse_sqrt cannot do without warmup.
inline optim::Schedule schedule_of(const Settings& s) {
  check(!s.final_lr || optim::has_floor(s.schedule),
        "--final-lr: the schedule {} has none of its own; cosine and linear have", s.schedule);
  const double final_lr = s.final_lr.value_or(std::min(1e-4, s.lr));
  check(!(final_lr > s.lr), "--final-lr is {}, above the --lr of {}", final_lr, s.lr);
  check(!s.warmup || s.schedule != "constant", "--warmup: the schedule constant has none");
  check(s.warmup.value_or(0) >= 0, "--warmup is {}, wanted at least 0", s.warmup.value_or(0));
  const int64_t least = s.schedule == "noam" || s.schedule == "inverse_sqrt" ? 1 : 0;
  const int64_t warmup = std::max(std::min(s.warmup.value_or(100), s.training.steps / 2), least);
  return optim::make_schedule(s.schedule, s.lr, warmup, s.training.steps, final_lr);
}

/// What the runs of a comparison differ in.
inline std::vector<nn::training::SweepAxis> axes_of(const CLI::App& app, const Settings& s) {
  const auto option_of = [&app](const std::string& name) { return app.get_option_no_throw("--" + name); };
  auto axes = nn::training::parse_axes(s.compare, "attention",
                                       [&](const std::string& name) { return option_of(name) != nullptr; });
  const auto has = [&axes](const char* option) {
    return std::any_of(axes.begin(), axes.end(), [&](const auto& axis) { return axis.option == option; });
  };
  for (const auto& axis : axes) {
    for (const char* same :
         {"data", "out", "resume", "checkpoint", "config", "compare", "seeds", "threads", "help"})
      check(axis.option != same, "--compare: --{} is the same for all runs", same);
    check(option_of(axis.option)->count() == 0, "--compare {0}=… is in place of --{0}, and both are given",
          axis.option);
  }
  check(s.seeds.empty() || !has("seed"), "--compare seed=… is in place of --seeds, and both are given");
  const bool only_seeds = axes.empty() || (axes.size() == 1 && has("seed"));
  if (only_seeds) axes.insert(axes.begin(), {"attention", {s.attention}});
  if (has("seed")) return axes;
  axes.push_back({"seed", {}});
  for (const uint64_t seed : s.seeds.empty() ? std::vector{s.seed} : s.seeds)
    axes.back().values.push_back(std::to_string(seed));
  return axes;
}

/// The settings of a program that can begin, or an error that says which option is wrong.
inline Settings checked(Settings s) {
  check(s.training.steps > 0 && s.sample >= 0, "--steps is {} and --sample is {}, wanted at least 1 and 0",
        s.training.steps, s.sample);
  check_memory(8 * static_cast<double>(s.sample), fmt::format("--sample {}", s.sample));
  check(s.training.checkpoint.empty() || s.one_run(),
        "--checkpoint names the file of one run: --compare and --seeds have several, in the folder --out");
  for (std::string& name : s.compare) std::erase(name, ' ');
  std::erase(s.attention, ' ');
  s.training = training_of(s);
  schedule_of(s);  // what is wrong with it is told once
  return s;
}

/// The settings of one run of a comparison.
inline Settings settings_of_run(Settings s, const nn::training::Run& run) {
  s.compare.clear();
  s.seeds.clear();
  CLI::App app;
  add_options(app, s);
  std::vector<std::string> words;
  for (const auto& [option, value] : run.options) words.push_back("--" + option + "=" + value);
  app.parse(words);
  return checked(s);
}

/// As a shell reads it.
inline std::string quoted(const std::string& path) {
  std::string text;
  for (const char c : path) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return "'" + text + "'";
}

}  // namespace vitrine::examples
