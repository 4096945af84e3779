// Training a GPT on text: the loop that programs share. Batches depend on the seed and the step, and checkpoints keep the
// position of the thread's generator, so that a resumed run is the run that was interrupted.
#pragma once

#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/graph.h"
#include "core/tape.h"
#include "nn/gpt.h"
#include "nn/training/loss_scale.h"
#include "nn/training/report.h"
#include "nn/training/text_data.h"
#include "optim/by_name.h"
#include "optim/clip.h"

namespace vitrine::nn::training {

/// How a Trainer trains; what is out of range, or a folder that is not there, is an error before the first step.
struct TrainingOptions {
  int64_t steps = 500;              ///< optimizer steps of the whole run, ≥ 1
  int64_t batch = 12;               ///< windows per micro-batch, ≥ 1
  int64_t accumulate = 1;           ///< micro-batches per step, ≥ 1; the loss is their mean
  int64_t evaluate_every = 100;     ///< steps between losses over the whole validation split
  double clip = 1;                  ///< largest norm of the gradients; 0: none
  std::string optimizer = "adamw";  ///< a name of optim/by_name.h
  double weight_decay = 0.1;        ///< of matrices; vectors are not decayed
  double beta2 = 0.99;              ///< of optimizers that have one; their β₁ is 0.9
  uint64_t seed = 1;                ///< of batches; dropout draws from the thread's generator
  std::string checkpoint;           ///< written at the end and on interruption; empty: none
  int64_t save_every = 0;           ///< steps between checkpoints on the way; 0: none
  std::string metrics;  ///< a line of JSON per step, as it is made; a resumed run goes on in it. Empty: none
  /// Replays the step as a CUDA graph, with the same bits; not with float16, whose losses the CPU scales.
  bool graph = false;
  bool progress = true;  ///< one live line on standard error; ten lines where that is no terminal
};

/// Trains a Gpt on the tokens of a training split and evaluates it on those of a validation split: batches, accumulation, loss
/// scaling for float16, clipping, schedule, evaluation, checkpoints and figures. Runs from equal states and seeds have the same bits,
/// and so has one that was stopped and resumed. A loss that is not finite is an error.
class Trainer {
 public:
  /// Refers to the model, which has to outlive it. Tokens are ids in [0, V), more than the context, else an error.
  Trainer(Gpt& model, const std::vector<int64_t>& training, const std::vector<int64_t>& validation,
          optim::Schedule schedule, TrainingOptions options);

  /// Trains until options.steps or until `stop()` says so (asked after each step); then writes the checkpoint. The figures of
  /// the run gather in report(). A run that has its steps already only evaluates, if its loss is not known.
  void run(const std::function<bool()>& stop = [] { return false; });
  /// Model, optimizer and step from a checkpoint, and the figures up to there from options.metrics where that file exists;
  /// from them run() goes on. A run of another seed, batch, attention, optimizer or text is an error.
  void resume(const std::string& path);
  /// Model, optimizer, step and what a resumed run has to have in common, as safetensors.
  void save(const std::string& path);

  int64_t step() const { return step_; }  ///< optimizer steps so far
  /// Mean loss per token over the whole validation split.
  double validation_loss();
  RunReport& report() { return report_; }  ///< what the run has shown, for write_report

 private:
  double train_step();
  /// Of all micro-batches of the step; returns the shares of their losses.
  std::vector<Tensor> compute_gradients(bool recorded);
  void update();
  void load_batches();
  Device device() const { return named_.front().second.value().device(); }
  void record_gradients();
  /// All series of the report, each by its name in the metrics.
  std::vector<std::pair<std::string, Series*>> series();
  void read_metrics();
  void write_metrics();
  /// What a resumed run has to have in common with the one before.
  std::map<std::string, std::string> setting() const;
  void show_progress(double loss, double seconds);

  Gpt& model_;
  WindowLoader training_, validation_;
  optim::Schedule schedule_;
  TrainingOptions options_;
  std::vector<std::pair<std::string, Parameter>> named_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  LossScale scale_;
  std::vector<Batch> batches_;  ///< of a step; they stay where they are
  std::optional<Graph> graph_;
  std::vector<Tensor> losses_of_graph_;
  bool warm_ = false;  ///< a step has been made, and with it what is made on first use
  RunReport report_;
  std::ofstream metrics_;
  int64_t step_ = 0;
};

/// Statistics of every head on one batch, and the weights of its first row as maps, with `label` naming tokens.
void inspect_attention(Gpt& model, const Batch& batch, const std::function<std::string(int64_t)>& label,
                       RunReport& report);

}  // namespace vitrine::nn::training
