// The command line of train_gpt, which a configuration file may hold too.
#pragma once

#include <CLI/CLI.hpp>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "nn/gpt.h"
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
  std::optional<double> final_lr;
  int64_t batch = 12, warmup = 100, sample = 300;
  uint64_t seed = 1;
  int threads = 0;
  bool one_run() const { return compare.empty() && seeds.empty(); }
};

inline void add_options(CLI::App& app, Settings& s) {
  app.set_config("--config", "", "a file with these options as name = value");
  app.allow_config_extras(CLI::config_extras_mode::error)->option_defaults()->take_last();
  app.add_option("--data", s.data, "UTF-8 text; by default Vitrine's own source");
  app.add_option("--attention", s.attention, "parts joined by +:\n" + nn::attention_parts());
  app.add_option("--compare", s.compare, "several attentions, on the same data and seed")->delimiter(',');
  app.add_option("--resume", s.resume, "a checkpoint to go on from, of one of these runs");
  app.add_option("--seeds", s.seeds, "train with each of these seeds, and print the mean")->delimiter(',');
  app.add_option("--prompt", s.prompt, "what the sample starts with; by default a new line");
  app.add_option("--checkpoint", s.training.checkpoint,
                 "where to save; by default in --out, by the run's name");
  app.add_option("--final-lr", s.final_lr, "learning rate at the end of cosine and linear [0.0001]");
  app.add_flag("--nesterov", s.training.nesterov, "Nesterov's momentum, of sgd");
  app.add_flag("--post-norm", s.post_norm,
               "norms behind the sums instead of before attention and feed-forward");
  app.add_flag("--no-bias", s.no_bias, "linear layers without bias");
  app.add_flag("--graph", s.training.graph, "replay the step as a CUDA graph");
  app.add_flag("--checkpoint-blocks", s.gpt.checkpoint_blocks,
               "less memory: compute blocks again in the backward");
  app.option_defaults()->always_capture_default();
  app.add_option("--out", s.out, "folder for report, checkpoints and metrics");
  app.add_option("--sample", s.sample, "characters to sample");
  app.add_option("--steps", s.training.steps, "optimizer steps");
  app.add_option("--batch", s.batch, "sequences per micro-batch");
  app.add_option("--accumulate", s.training.accumulate, "micro-batches per step");
  app.add_option("--evaluate-every", s.training.evaluate_every, "steps between validation losses");
  app.add_option("--save-every", s.training.save_every, "steps between checkpoints; 0: at the end alone");
  app.add_option("--layers", s.gpt.layers, "blocks");
  app.add_option("--heads", s.gpt.heads, "query heads");
  app.add_option("--key-heads", s.gpt.key_heads, "key heads; 0: as many as query heads");
  app.add_option("--width", s.gpt.width, "channels");
  app.add_option("--context", s.gpt.context, "longest sequence");
  app.add_option("--hidden", s.gpt.hidden, "size of the feed-forward layer; 0: four times the width");
  app.add_option("--activation", s.activation, "relu, gelu, gelu_tanh, silu or swiglu");
  app.add_option("--norm", s.norm, "layer or rms");
  app.add_option("--dropout", s.gpt.dropout, "probability");
  app.add_option("--positions", s.positions, "automatic, learned, sinusoidal or none");
  app.add_option("--optimizer", s.training.optimizer, optim::optimizer_names());
  app.add_option("--schedule", s.schedule, optim::schedule_names());
  app.add_option("--weight-decay", s.training.weight_decay, "of matrices");
  app.add_option("--momentum", s.training.momentum, "of sgd and rmsprop");
  app.add_option("--beta1", s.training.beta1, "of Adam and its relatives");
  app.add_option("--beta2", s.training.beta2, "of Adam and its relatives");
  app.add_option("--clip", s.training.clip, "largest norm of the gradients; 0: none");
  app.add_option("--lr", s.lr, "highest learning rate");
  app.add_option("--warmup", s.warmup,
                 "steps of warmup; at most half of all, and at least one of noam and inverse_sqrt");
  app.add_option("--dtype", s.dtype,
                 "float32, float64, bfloat16 or float16 (with float32 masters; float16 scales the loss)");
  app.add_option("--device", s.device, "cpu or cuda (in builds without nvcc the emulator's, which is slow)")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--seed", s.seed, "of everything random");
  app.add_option("--threads", s.threads, "0: all cores");
}

/// noam and inverse_sqrt cannot do without warmup.
inline optim::Schedule schedule_of(const Settings& s) {
  check(!s.final_lr || optim::has_floor(s.schedule),
        "--final-lr: the schedule {} has none of its own; cosine and linear have", s.schedule);
  const int64_t least = s.schedule == "noam" || s.schedule == "inverse_sqrt" ? 1 : 0;
  const int64_t warmup = std::max(std::min(s.warmup, s.training.steps / 2), least);
  return optim::make_schedule(s.schedule, s.lr, warmup, s.training.steps, s.final_lr.value_or(1e-4));
}

/// As a shell reads it.
inline std::string quoted(const std::string& path) {
  std::string text;
  for (const char c : path) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return "'" + text + "'";
}

}  // namespace vitrine::examples
