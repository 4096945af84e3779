// The options of train_gpt.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "core/matmul_math.h"
#include "core/memory/machine.h"
#include "nn/attention/part.h"
#include "nn/models/gpt.h"
#include "nn/options.h"
#include "nn/training/schedule_options.h"
#include "nn/training/sweep.h"
#include "nn/training/trainer.h"
#include "nn/transformer/mixers.h"

namespace vitrine::examples {

struct Settings {
  nn::GptOptions gpt;
  nn::training::TrainingOptions training;
  nn::training::ScheduleOptions schedule;
  std::string data, out = "reports", resume, prompt, device = "cpu", dtype = "float32",
                    gradients = "automatic", math = "float32", tokenizer = "characters";
  std::vector<std::string> compare;
  std::vector<uint64_t> seeds;
  int64_t batch = 12, sample = 300, vocabulary = 1000;
  uint64_t seed = 1;
  int threads = 0;

  void list(nn::OptionList& o) {
    using nn::Role;
    o.group("Data and comparison");
    o("data", data, "UTF-8 text file; by default a snapshot of Vitrine's own source").decides(Role::files);
    o("compare", compare,
      "several mixers, or OPTION=VALUE,VALUE for any other option; may be repeated. One run per combination "
      "of values, on the same data and seeds")
        .decides(Role::files);
    o("seed", seed, "seed of all random numbers");
    o("seeds", seeds, "train with each of these seeds and print the means; replaces --seed")
        .decides(Role::files);
    gpt.list(o);
    o.remove("vocabulary");  // that of the tokenizer
    o.group("Data and comparison");
    o("tokenizer", tokenizer,
      "what a token is: a character, bytes that often come together, a word, or a part of one")
        .one_of({"characters", "bpe", "words", "word_piece"})
        .decides(Role::files);
    o("vocabulary", vocabulary,
      "tokens of the others, the 256 bytes or the characters among them; a short text gives fewer")
        .at_least(256)
        .unless([this] { return tokenizer == "characters" ? "the tokenizer characters has none" : ""; })
        .decides(Role::files);
    training.list(o);
    schedule.list(o);
    o.group("Training");
    o("batch", batch, "sequences per micro-batch").at_least(1);
    o.group("Machine");
    o("dtype", dtype, "16-bit dtypes keep float32 master weights; float16 scales the loss")
        .one_of({"float32", "float64", "bfloat16", "float16"});
    o("gradients", gradients,
      "dtype of the gradients; bfloat16, with --dtype bfloat16, halves their memory and rounds their sums")
        .one_of({"automatic", "bfloat16"});
    o("math", math, "how float32 matrices are multiplied; bfloat16 rounds the operands of products to 8 bits")
        .one_of({kMatmulMathNames.begin(), kMatmulMathNames.end()});
    o("device", device, "cpu, cuda or cuda:1 (without nvcc, cuda is the emulator, which is slow)")
        .decides(Role::execution);
    o("threads", threads, "CPU threads; 0: all cores").decides(Role::execution);
    o.group("Files and progress");
    o("out", out, "folder for the report, checkpoints, metrics and configurations").decides(Role::files);
    o("resume", resume,
      "continue from this checkpoint of one of the runs; earlier runs continue from theirs in --out, and later "
      "runs start from the beginning")
        .decides(Role::files);
    o("prompt", prompt, "beginning of the sample; by default a new line").decides(Role::files);
    o("sample", sample, "length of the sample, in tokens").at_least(0).decides(Role::files);
  }
};

/// Returns the settings if a program can start with them. Otherwise the error names the wrong
/// option.
inline Settings checked(Settings s) {
  check_memory(8 * static_cast<double>(s.sample), fmt::format("--sample {}", s.sample));
  check(s.training.checkpoint.empty() || (s.compare.empty() && s.seeds.empty()),
        "--checkpoint names the file of one run: --compare and --seeds have several, in the folder --out");
  check(!s.training.new_schedule || !s.resume.empty(), "--new-schedule: there is no --resume to go on from");
  check(!s.training.graph || !device_of(s.device).is_cpu(),
        "--graph: there are CUDA graphs with --device cuda alone");
  check(s.gradients == "automatic" || s.dtype == "bfloat16", "--gradients bfloat16: wanted --dtype bfloat16");
  for (std::string& word : s.compare) std::erase(word, ' ');
  std::erase(s.gpt.mixer, ' ');
  return s;
}

/// The names of mixers and of parts of attention.
inline std::vector<std::string> mixer_parts() {
  std::vector<std::string> parts;
  for (const nn::MixerRow* row : nn::mixer_table()) parts.push_back(row->name);
  for (const nn::AttentionPartRow* row : nn::attention_part_table()) parts.push_back(row->name);
  return parts;
}

/// The axes of a comparison. `given` is the list that the command line has filled.
inline std::vector<nn::training::SweepAxis> axes_of(Settings s, const nn::OptionList& given) {
  Settings read = s;
  nn::OptionList options = nn::options_of(read, given);
  const std::string one_seed = options.find("seed")->given, seeds = options.find("seeds")->given;
  auto axes = nn::training::parse_axes(s.compare, "mixer", mixer_parts(), options);
  const bool has_seed =
      std::any_of(axes.begin(), axes.end(), [](const auto& a) { return a.option == "seed"; });
  check(s.seeds.empty() || one_seed.empty(), "{} is in place of {}, and both are given", seeds, one_seed);
  check(s.seeds.empty() || !has_seed, "--compare seed=… is in place of {}, and both are given", seeds);
  if (axes.size() == (has_seed ? 1 : 0)) axes.insert(axes.begin(), {"mixer", {s.gpt.mixer}});
  if (has_seed) return axes;
  axes.push_back({"seed", {}});
  for (const uint64_t seed : s.seeds.empty() ? std::vector{s.seed} : s.seeds)
    axes.back().values.push_back(std::to_string(seed));
  return axes;
}

/// The settings of one run of a comparison, sufficient to repeat that run: every default has a
/// value, and paths are absolute. A resumed run with an unchanged schedule equals the run from the
/// beginning. Invalid settings are an error.
inline Settings settings_of_run(Settings s, const nn::OptionList& given, const nn::training::Run& run) {
  nn::OptionList options = nn::options_of(s, given);
  for (const auto& [name, value] : run.options) options.find(name)->read({value}, "--compare " + name);
  options.check_given();
  nn::check_options(s, "train_gpt");
  s.schedule.schedule(s.training.steps);
  s.schedule = s.schedule.resolved(s.training.steps);
  s.compare.clear();
  s.seeds.clear();
  s.resume.clear();
  s.training.new_schedule = s.training.new_schedule && !run.resume.empty();
  for (std::string* path : {&s.data, &s.out, &s.training.checkpoint, &s.training.tensorboard})
    if (!path->empty()) *path = std::filesystem::absolute(*path).lexically_normal().string();
  return s;
}

}  // namespace vitrine::examples
