// The training loop that programs share. Batches depend on their number, and checkpoints keep the
// position of the thread's generator, so that a resumed run is the run that was interrupted.
//
//   Trainer trainer(language_modeling(gpt, training, validation, 12, 1),
//                   optim::warmup_cosine(1e-3, 100, 500), {.steps = 500});
//   trainer.run();
//   report::write_report("report.html", "A run", {trainer.record()});
#pragma once

#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/files/file.h"
#include "core/files/run_lock.h"
#include "core/gpu/step_graph.h"
#include "core/tape.h"
#include "nn/options.h"
#include "nn/report/run.h"
#include "nn/training/gradient_norms.h"
#include "nn/training/loss_scale.h"
#include "nn/training/progress.h"
#include "nn/training/rate_history.h"
#include "nn/training/task.h"
#include "optim/by_name.h"
#include "optim/clip.h"

namespace vitrine::nn::training {

/// How a Trainer trains; what is out of range, or a folder that is not there, is an error before
/// the first step.
struct TrainingOptions {
  int64_t steps = 500;  ///< optimizer steps of the whole run, ≥ 1
  /// micro-batches per step, ≥ 1; the loss is the mean over the tokens of all
  int64_t accumulate = 1;
  int64_t evaluate_every = 100;      ///< steps between losses over the whole validation split
  double clip = 1;                   ///< largest norm of the gradients; 0: none
  std::string optimizer = "adamw";   ///< a name of optim/by_name.h
  double weight_decay = 0.1;         ///< of matrices; vectors are not decayed
  double beta1 = 0.9, beta2 = 0.99;  ///< of optimizers that have them (optim::has_option)
  double momentum = 0.9;             ///< of sgd and rmsprop
  bool nesterov = false;             ///< of sgd
  /// Written at the end and on interruption; empty: none. A step that fails writes the run before
  /// it beside that, as ….failed.
  std::string checkpoint = {};
  int64_t save_every = 0;  ///< steps between checkpoints on the way; 0: none
  /// A line of JSON per step, as it is made; a resumed run continues the file. Empty: none. Metrics
  /// that cannot be written any more (a full disk, a file that was deleted) end the run with an
  /// error, after the checkpoint has been written.
  std::string metrics = {};
  /// Replays the step as a CUDA graph, with the same bits; not with float16, whose losses the CPU
  /// scales. Batches then have the same shapes in every step; their tokens may differ.
  bool graph = false;
  /// A metric of the task, or "loss": the model that was the best by it is kept beside the
  /// checkpoint (best_checkpoint_of). Empty: none is. The figure is that of an evaluation.
  std::string best_by = {};
  /// a line on standard error that is written over, or ten lines (nn/training/progress.h)
  bool progress = true;
  std::string run = {};  ///< the name of the run in that line
  /// resume() takes other learning rates than those of the run before, and the checkpoint records
  /// the change.
  bool new_schedule = false;

  void list(OptionList& o);  ///< what a user chooses; see nn/options.h
};

/// "runs/laser.best.safetensors" of "runs/laser.safetensors".
std::string best_checkpoint_of(const std::string& checkpoint);

/// Trains the model of a task: accumulation, in which micro-batches count by their tokens, loss
/// scaling for float16, clipping, schedule, evaluation, checkpoints and figures. Runs from equal
/// states on equal tasks have the same bits, and so has one that was stopped and resumed. Dropout
/// draws from the thread's generator. A loss that is not finite is an error. Checkpoint and metrics
/// are locked (core/files/run_lock.h): another run that would write them is an error.
class Trainer {
 public:
  /// Refers to the model, which has to outlive it and stay where it is. A model without parameters
  /// is an error. The optimizer holds parameters of the model; the schedule sets the rates of its
  /// groups. A resumed run compares the optimizer's setting().
  Trainer(Task task, std::unique_ptr<optim::Optimizer> optimizer, optim::Schedule schedule,
          TrainingOptions options);
  /// With the optimizer that the options name; matrices are decayed, all else is not.
  Trainer(Task task, optim::Schedule schedule, TrainingOptions options);

  /// Trains until options.steps or until `stop()` says so (asked before each step); then writes the
  /// checkpoint. A step that fails before it has changed a parameter is an error that says where
  /// the run before it was saved. The figures of the run gather in record(). A run that has its
  /// steps already only evaluates, if its loss is not known.
  void run(const std::function<bool()>& stop = [] { return false; });
  /// Model, optimizer and step from a checkpoint, and the figures up to there from options.metrics
  /// where that file exists; from them run() goes on. A run of another task or optimizer, or of
  /// other settings of them, is an error; so are metrics of another run.
  void resume(const std::string& path);
  /// Model, optimizer, step and what a resumed run has to have in common, as safetensors.
  void save(const std::string& path);

  int64_t step() const { return step_; }  ///< optimizer steps so far
  /// Mean loss over the whole validation split.
  double validation_loss();
  /// The task's metrics there, in their order. `loss` is the split's.
  std::vector<double> validation_metrics(double loss);
  /// Where this run, or a run before from which it goes on, was resumed with other learning rates.
  const std::vector<ScheduleChange>& schedule_changes() const { return rates_.changes(); }
  /// What the run has shown, for report::write_report
  report::RunRecord& record() { return record_; }

 private:
  double train_step();
  double step_or_save();
  /// Of all micro-batches of the step; returns what each adds to its loss.
  std::vector<Tensor> compute_gradients(bool recorded);
  void update();
  void place(Tensor& there, const Tensor& x);
  void load_batches();
  Device device() const { return named_.front().second.value().device(); }
  void record_gradients();
  /// All series of the record, each by its name in the metrics.
  std::vector<std::pair<std::string, report::Series*>> series();
  void read_metrics(const std::string& checkpoint, int64_t step, double loss);
  void open_metrics();
  void write_metrics();
  std::string saved_as(const std::string& path);
  /// What a resumed run has to have in common with the one before, apart from the learning rates.
  OptionValues setting() const;
  int64_t tokens() const;  ///< of the step's batches
  void note_peak();
  void show_progress(double loss, double seconds);
  void evaluate();
  /// The values of best_by over steps, and whether more of them is better.
  std::pair<const report::Series*, bool> chosen_by() const;
  /// Saves the checkpoint of the best, if the step has been evaluated and is it.
  void keep_best();

  Task task_;
  RateHistory rates_;
  TrainingOptions options_;
  std::vector<std::unique_ptr<RunLock>> locks_;
  std::vector<std::pair<std::string, Parameter>> named_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  LossScale scale_;
  std::vector<Layer> layers_;
  std::vector<std::pair<std::string, MultiHeadAttention*>> attentions_;
  std::vector<Batch> batches_;  ///< of a step; they stay where they are
  std::vector<Tensor> shares_;  ///< of each batch in the tokens of the step, beside it
  std::optional<StepGraph> graph_;
  std::vector<Tensor> losses_of_graph_;
  ProgressDisplay display_;
  bool warm_ = false;    ///< a step has been made, and with it what is made on first use
  bool moving_ = false;  ///< the step has come to its update
  report::RunRecord record_;
  std::unique_ptr<AppendedFile> metrics_;
  int64_t step_ = 0;
  double last_loss_ = NAN;  ///< of the last step
  double seconds_ = 0;      ///< spent on all steps, also those before a resume
  double peak_ = 0;         ///< bytes, of all parts of the run
  double best_ = NAN;       ///< of best_by; NaN: none yet
};

}  // namespace vitrine::nn::training
