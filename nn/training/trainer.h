// The training loop. A batch depends only on its number, and a checkpoint stores the state of the
// thread's random generator, so a resumed run gives the same results as an uninterrupted one.
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
#include "nn/training/event_file.h"
#include "nn/training/gradient_norms.h"
#include "nn/training/loss_scale.h"
#include "nn/training/progress.h"
#include "nn/training/rate_history.h"
#include "nn/training/task.h"
#include "optim/by_name.h"
#include "optim/clip.h"

namespace vitrine::nn::training {

/// How a Trainer trains. A value out of range, or a folder that does not exist, is an error before
/// the first step.
struct TrainingOptions {
  int64_t steps = 500;  ///< optimizer steps of the whole run, ≥ 1
  /// Micro-batches per step, ≥ 1; the loss is the mean over the tokens of all micro-batches
  int64_t accumulate = 1;
  int64_t evaluate_every = 100;      ///< steps between evaluations on the whole validation split
  double clip = 1;                   ///< maximum norm of the gradients; 0: no clipping
  std::string optimizer = "adamw";   ///< a name of optim/by_name.h
  double weight_decay = 0.1;         ///< for matrices; vectors are not decayed
  double beta1 = 0.9, beta2 = 0.99;  ///< for optimizers that have them (optim::has_option)
  double momentum = 0.9;             ///< for sgd and rmsprop
  bool nesterov = false;             ///< for sgd
  std::string moments = "float32";   ///< or bfloat16 (optim::Optimizer::set_moments)
  /// The path of the checkpoint, written at the end and on interruption; empty: none. If a step
  /// fails, the state before that step is written next to it, as ….failed.
  std::string checkpoint = {};
  int64_t save_every = 0;  ///< steps between checkpoints during the run; 0: none
  /// A file with one line of JSON per step, written during the run; a resumed run continues it.
  /// Empty: none. If the file can no longer be written (a full disk, a deleted file), the run saves
  /// its checkpoint and ends with an error.
  std::string metrics = {};
  /// A folder for an event file of TensorBoard with the same values; empty: none. A resumed run
  /// begins a file of its own.
  std::string tensorboard = {};
  /// Replays the step as a CUDA graph, with bitwise equal results. Not with float16, because its
  /// loss scale is computed on the CPU. Batches must have the same shapes in every step; their
  /// numbers of tokens may differ.
  bool graph = false;
  /// A metric of the task, or "loss": the best model by its value at evaluations is saved next to
  /// the checkpoint (best_checkpoint_of). Empty: none.
  std::string best_by = {};
  /// Early stopping: the run ends after so many evaluations in a row whose value of best_by is no
  /// better than the best one before. 0: it never ends early.
  int64_t patience = 0;
  /// Shows progress on standard error (nn/training/progress.h)
  bool progress = true;
  std::string run = {};  ///< the name of the run in the progress line
  /// Allows resume() to use other learning rates than the original run. The checkpoint records the
  /// change.
  bool new_schedule = false;

  void list(OptionList& o);  ///< the options for users; see nn/options.h
};

/// "runs/laser.best.safetensors" for "runs/laser.safetensors".
std::string best_checkpoint_of(const std::string& checkpoint);

/// Trains the model of a task, with gradient accumulation (micro-batches are weighted by tokens),
/// loss scaling for float16, clipping, schedule, evaluation, checkpoints and a record. An optimizer
/// that needs estimates of the Hessian gets them before its step. Equal tasks
/// and initial states give bitwise equal results, also if a run is stopped and resumed. Dropout
/// uses the generator of the thread. A loss that is not finite is an error. Checkpoint and metrics
/// files are locked (core/files/run_lock.h): a second run that writes the same files is an error.
class Trainer {
 public:
  /// Refers to the model, which must outlive the trainer and must not be moved. The optimizer holds
  /// parameters of the model; the schedule sets the learning rates of its groups. A model without
  /// parameters is an error. A resumed run compares the optimizer's setting().
  Trainer(Task task, std::unique_ptr<optim::Optimizer> optimizer, optim::Schedule schedule,
          TrainingOptions options);
  /// With the optimizer that the options name. Weight decay applies to matrices only.
  Trainer(Task task, optim::Schedule schedule, TrainingOptions options);

  /// Trains until options.steps, until is_out_of_patience(), or until `stop()` returns true; it is
  /// called before each step.
  /// Then writes the checkpoint. If a step fails before it changes a parameter, the error states
  /// where the state before the step was saved. Measurements are collected in record(). A run that
  /// has already made all its steps is only evaluated, if its loss is not known. Evaluations and
  /// checkpoints, and the model afterwards, are at the optimizer's evaluation point.
  void run(const std::function<bool()>& stop = [] { return false; });
  /// Restores model, optimizer and step from a checkpoint, and the record up to that step from
  /// options.metrics if that file exists. run() then continues. Errors: a checkpoint of another
  /// task or optimizer, or with other settings of them; metrics of another run.
  void resume(const std::string& path);
  /// Saves model, optimizer, step and the settings that a resumed run must share, as safetensors.
  void save(const std::string& path);

  int64_t step() const { return step_; }  ///< optimizer steps so far
  /// Whether options.patience evaluations in a row were no better than the best one.
  bool is_out_of_patience() const;
  /// Mean loss over the whole validation split.
  double validation_loss();
  /// The metrics of the task on the validation split, in order. `loss` is the loss on that split.
  std::vector<double> validation_metrics(double loss);
  /// The resumes with other learning rates, of this run and of the runs that it continues.
  const std::vector<ScheduleChange>& schedule_changes() const { return rates_.changes(); }
  /// The measurements of the run, for report::write_report
  report::RunRecord& record() { return record_; }

 private:
  double train_step();
  double step_or_save();
  /// For all micro-batches of the step. Returns the contribution of each to the loss.
  std::vector<Tensor> compute_gradients(bool recorded);
  /// Estimates of the Hessian's diagonal from the first micro-batch of the step, one for each
  /// parameter that is not frozen; none if the optimizer does not need them now.
  std::vector<Tensor> estimates();
  void add_estimates(const std::vector<Tensor>& estimates);
  std::vector<Parameter> trained() const;  ///< the parameters that are not frozen
  void update();
  void place(Tensor& there, const Tensor& x);
  void load_batches();
  Device device() const { return named_.front().second.value().device(); }
  void record_gradients();
  /// All series of the record, each with its name in the metrics file.
  std::vector<std::pair<std::string, report::Series*>> series();
  void read_metrics(const std::string& checkpoint, int64_t step, double loss);
  void open_metrics();
  void write_metrics();
  std::string saved_as(const std::string& path);
  /// The settings that a resumed run must share with the original run, except the learning rates.
  OptionValues setting() const;
  int64_t tokens() const;  ///< of the step's batches
  void note_peak();
  void show_progress(double loss, double seconds, bool last = false);
  void evaluate();
  /// The values of best_by over steps, and whether more is better.
  std::pair<const report::Series*, bool> chosen_by() const;
  /// Saves the checkpoint of the best model if the step has been evaluated and is the best.
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
  std::vector<Batch> batches_;  ///< of a step; their memory stays in place
  std::vector<Tensor> shares_;  ///< of each batch in the tokens of the step, on the same device
  std::optional<StepGraph> graph_;
  std::vector<Tensor> losses_of_graph_;
  ProgressDisplay display_;
  double flops_ = 0;     ///< of the last step that was not a replay, which costs the same
  bool warm_ = false;    ///< a step has run, and has initialized what is created on first use
  bool moving_ = false;  ///< the step has begun to update parameters
  report::RunRecord record_;
  std::unique_ptr<AppendedFile> metrics_;
  std::unique_ptr<EventFile> events_;
  int64_t step_ = 0;
  double last_loss_ = NAN;  ///< of the last step
  double seconds_ = 0;      ///< of all steps, including those before a resume
  double peak_ = 0;         ///< bytes, the maximum over all parts of the run
  double best_ = NAN;       ///< of best_by; NaN: none yet
  int64_t worse_ = 0;       ///< evaluations since the best one
};

}  // namespace vitrine::nn::training
