#include "nn/training/trainer.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "core/creation.h"
#include "core/files/file.h"
#include "core/flops.h"
#include "core/gpu/stream.h"
#include "core/memory/allocator.h"
#include "core/memory/machine.h"
#include "core/random.h"
#include "nn/training/clock.h"
#include "ops/elementwise.h"
#include "ops/view.h"
#include "optim/hessian.h"

namespace vitrine::nn::training {
namespace {

constexpr int64_t kRecordEvery = 10;  // steps between recorded gradient norms

std::vector<Parameter> with_rank(const std::vector<std::pair<std::string, Parameter>>& named, bool matrices) {
  std::vector<Parameter> result;
  for (const auto& [name, p] : named)
    if ((p.shape().rank() >= 2) == matrices) result.push_back(p);
  return result;
}

/// One group for matrices, and one without weight decay for all other parameters. A model may lack
/// either.
std::unique_ptr<optim::Optimizer> optimizer_of(const std::vector<std::pair<std::string, Parameter>>& named,
                                               const TrainingOptions& o) {
  const auto matrices = with_rank(named, true), others = with_rank(named, false);
  const optim::CommonOptions options{.beta1 = o.beta1,
                                     .beta2 = o.beta2,
                                     .weight_decay = matrices.empty() ? 0 : o.weight_decay,
                                     .momentum = o.momentum,
                                     .nesterov = o.nesterov,
                                     .moments = dtype_of(o.moments)};
  auto optimizer = optim::make_optimizer(o.optimizer, matrices.empty() ? others : matrices, options);
  if (!matrices.empty() && !others.empty()) optimizer->add_group({others, {0, 0}});
  return optimizer;
}

optim::Schedule checked(optim::Schedule schedule) {
  check(schedule != nullptr, "training: there is no schedule");
  return schedule;
}

/// Finds errors that would otherwise appear after an hour of training.
const TrainingOptions& checked(const TrainingOptions& o) {
  check_options(o, "training");
  check_memory(static_cast<double>(o.accumulate) * (sizeof(Batch) + sizeof(Tensor)),
               fmt::format("training: accumulate {}, the micro-batches of a step", o.accumulate));
  check(o.save_every == 0 || !o.checkpoint.empty(),
        "training: save-every is {}, and there is no checkpoint to write", o.save_every);
  for (const auto& [name, path] : {std::pair{"checkpoint", &o.checkpoint}, {"metrics", &o.metrics}}) {
    const auto folder = std::filesystem::path(*path).parent_path();
    check(folder.empty() || std::filesystem::is_directory(folder), "training: there is no folder for {} {}",
          name, *path);
  }
  if (!o.checkpoint.empty()) check_can_write("training", o.checkpoint);
  return o;
}

std::vector<std::unique_ptr<RunLock>> locks_of(const TrainingOptions& o) {
  std::vector<std::unique_ptr<RunLock>> locks;
  for (const std::string* path : {&o.checkpoint, &o.metrics})
    if (!path->empty()) locks.push_back(std::make_unique<RunLock>("training", *path));
  return locks;
}

Task checked(Task task) {
  check(task.batch && task.validation && task.loss,
        "training: the task lacks its batches, its validation batches or its loss");
  check(!task.model.parameters().empty(), "training: the model has no parameters");
  std::set<std::string> names = {"loss"};
  for (const Metric& metric : task.metrics) {
    check(names.insert(metric.name).second, "training: two metrics have the name {}", metric.name);
    check(!metric.of_batch != !metric.of_split,
          "training: the metric {} has {} of_batch and of_split, wanted one of the two", metric.name,
          metric.of_batch ? "both" : "neither");
    formatted(metric.format, 0);
  }
  return task;
}

void check_best_by(const TrainingOptions& o, const std::vector<Metric>& metrics) {
  check(o.patience == 0 || !o.best_by.empty(),
        "training: patience is {}, and best-by does not say which value of an evaluation must improve",
        o.patience);
  if (o.best_by.empty()) return;
  std::vector<std::string> names = {"loss"};
  for (const Metric& metric : metrics) names.push_back(metric.name);
  check(std::find(names.begin(), names.end(), o.best_by) != names.end(),
        "training: best-by is {}, wanted {}{}", o.best_by, joined_by_or(names),
        did_you_mean(o.best_by, names));
  check(!o.checkpoint.empty(), "training: best-by is {}, and there is no checkpoint to write", o.best_by);
}

}  // namespace

void TrainingOptions::list(OptionList& o) {
  const auto unless_it_has = [this](const char* option) {
    return [this, option] {
      return optim::has_option(optimizer, option) ? "" : fmt::format("the optimizer {} has none", optimizer);
    };
  };
  o.group("Training");
  o("steps", steps, "optimizer steps").at_least(1).decides(Role::schedule);
  o("accumulate", accumulate, "micro-batches per step").at_least(1);
  o("clip", clip, "maximum norm of the gradients; 0: no clipping").at_least(0);
  o("optimizer", optimizer, optim::optimizer_names());
  o("weight-decay", weight_decay, "weight decay of matrices").at_least(0);
  o("momentum", momentum, "momentum of sgd and rmsprop").at_least(0).unless(unless_it_has("momentum"));
  o("nesterov", nesterov, "Nesterov momentum, for sgd").unless(unless_it_has("nesterov"));
  o("moments", moments, "dtype of the optimizer's moments; bfloat16 halves their memory")
      .one_of({"float32", "bfloat16"})
      .unless(unless_it_has("moments"));
  o("beta1", beta1, "beta1 of Adam and related optimizers")
      .at_least(0)
      .below(1)
      .unless(unless_it_has("beta1"));
  o("beta2", beta2, "beta2 of Adam and related optimizers, and of rmsprop")
      .at_least(0)
      .below(1)
      .unless(unless_it_has("beta2"));
  o("graph", graph, "replay the step as a CUDA graph; requires --device cuda").decides(Role::execution);
  o.group("Files and progress");
  o("evaluate-every", evaluate_every, "steps between evaluations on the validation split")
      .at_least(1)
      .decides(Role::files);
  o("save-every", save_every, "steps between checkpoints; 0: only at the end")
      .at_least(0)
      .decides(Role::files);
  o("checkpoint", checkpoint, "path of the checkpoint; by default in --out, named after the run")
      .decides(Role::files);
  o("tensorboard", tensorboard, "a folder for event files of TensorBoard; each run has its own in it")
      .decides(Role::files);
  o("best-by", best_by, "also save the best model by loss or another metric, next to the checkpoint")
      .decides(Role::files);
  o("patience", patience, "evaluations in a row without a better best-by that end the run; 0: none do")
      .at_least(0)
      .decides(Role::schedule);
  o("new-schedule", new_schedule, "continue from --resume with other learning rates or steps")
      .decides(Role::files);
}

Trainer::Trainer(Task task, optim::Schedule schedule, TrainingOptions options)
    : Trainer(task, optimizer_of(checked(task).model.named_parameters(), checked(options)),
              std::move(schedule), options) {}

Trainer::Trainer(Task task, std::unique_ptr<optim::Optimizer> optimizer, optim::Schedule schedule,
                 TrainingOptions options)
    : task_(checked(std::move(task))),
      rates_(checked(std::move(schedule))),
      options_(checked(options)),
      locks_(locks_of(options_)),
      named_(task_.model.named_parameters()),
      optimizer_(std::move(optimizer)),
      scale_(named_.front().second.dtype()),
      layers_(layers_of(task_.model)),
      attentions_(attentions_of(task_.model)) {
  check(optimizer_ != nullptr, "training: there is no optimizer");
  check(!options_.graph || scale_.value() == 1,
        "training: the scale of float16 losses is chosen on the CPU, which a graph leaves out; use bfloat16");
  for (const Layer& layer : layers_) record_.grad_norm_by_layer.push_back({layer.path, {}, {}});
  for (const auto& attention : attentions_)
    record_.grad_norm_by_path.push_back({attention.first, {"Q", {}, {}}, {"K", {}, {}}, {"V", {}, {}}});
  record_.train_loss.name = "training";
  record_.validation_loss.name = "validation";
  record_.parameters = task_.model.parameter_count();
  record_.words = task_.words;
  for (const Metric& metric : task_.metrics)
    record_.metrics.push_back({metric.name, metric.more_is_better, metric.format, {metric.name, {}, {}}});
  check_best_by(options_, task_.metrics);
}

int64_t Trainer::tokens() const {
  int64_t all = 0;
  for (const Batch& batch : batches_) all += batch.tokens;
  return all;
}

/// Copies x, which is on the CPU, into the memory of the previous batch.
void Trainer::place(Tensor& there, const Tensor& x) {
  if (!there.defined() || there.shape() != x.shape() || there.dtype() != x.dtype()) {
    check(!graph_,
          "training: a batch of step {} has {} {}, and those of the steps that the graph replays do not",
          step_ + 1, name(x.dtype()), x.shape());
    there = empty(x.shape(), x.dtype(), device());
  }
  // The copy reads from its own pinned memory, so neither side waits for the GPU, and the task may
  // reuse the memory of the batch.
  copy_async(there, device().is_cpu() ? x : copy_pinned(x));
}

void Trainer::load_batches() {
  const auto count = static_cast<size_t>(options_.accumulate);
  for (size_t i = 0; i < count; ++i) {
    const Batch on_cpu = task_.batch(step_ * options_.accumulate + static_cast<int64_t>(i));
    if (batches_.empty()) {  // the first batch determines the size
      double bytes = sizeof(Batch) + sizeof(Tensor);
      if (device().is_cpu())
        for (const Tensor& x : on_cpu.tensors) bytes += static_cast<double>(x.numel() * x.element_size());
      check_memory(bytes * static_cast<double>(count),
                   fmt::format("training: accumulate {}, the micro-batches of a step", options_.accumulate));
      batches_.resize(count);
      shares_.resize(count);
    }
    auto& tensors = batches_[i].tensors;
    check(!graph_ || tensors.size() == on_cpu.tensors.size(),
          "training: a batch of step {} has {} tensors, and those of the graph that replays steps {}",
          step_ + 1, on_cpu.tensors.size(), tensors.size());
    batches_[i].tokens = on_cpu.tokens;
    tensors.resize(on_cpu.tensors.size());
    for (size_t j = 0; j < tensors.size(); ++j) place(tensors[j], on_cpu.tensors[j]);
  }
  check(tokens() > 0, "training: the batches of step {} have no tokens", step_ + 1);
  for (size_t i = 0; i < batches_.size(); ++i)
    place(shares_[i],
          Tensor(static_cast<double>(batches_[i].tokens) / static_cast<double>(tokens()), DType::float64));
}

std::vector<Tensor> Trainer::compute_gradients(bool recorded) {
  optimizer_->zero_grad();
  std::vector<Tensor> losses;
  std::optional<PathRecorder> paths;
  if (recorded) paths.emplace(attentions_);
  for (size_t i = 0; i < batches_.size(); ++i) {
    Tape tape;
    const Tensor mean = task_.loss(batches_[i].tensors);
    losses.push_back(mean * cast(shares_[i], mean.dtype()));
    tape.backward(scale_.value() == 1 ? losses.back() : losses.back() * scale_.value());
  }
  if (paths) paths->add_to(record_.grad_norm_by_path, static_cast<double>(step_ + 1), scale_.value());
  return losses;
}

std::vector<Parameter> Trainer::trained() const {
  std::vector<Parameter> result;
  for (const auto& named : named_)
    if (named.second.requires_grad()) result.push_back(named.second);
  return result;
}

std::vector<Tensor> Trainer::estimates() {
  if (!optimizer_->needs_estimate()) return {};
  const std::vector<Tensor>& x = batches_.front().tensors;
  if (task_.logits) return optim::gauss_newton_bartlett(trained(), [&] { return task_.logits(x); });
  return optim::hutchinson(trained(), [&] { return task_.loss(x); });
}

void Trainer::add_estimates(const std::vector<Tensor>& estimates) {
  moving_ = true;
  if (!estimates.empty()) optimizer_->add_estimates(trained(), estimates);
}

void Trainer::update() {
  optim::ClipFactor clip;
  if (options_.clip > 0) clip = optim::clip_factor(task_.model.parameters(), options_.clip);
  moving_ = true;
  optimizer_->step(clip);
}

double Trainer::train_step() {
  moving_ = false;
  load_batches();
  optimizer_->set_lr(rates_.rate(step_ + 1));
  const auto sum_of = [this](const std::vector<Tensor>& losses) {
    double loss = 0;
    for (const Tensor& x : losses) loss += x.item();
    check(std::isfinite(loss), "training: the loss is {} at step {}; lower the learning rate", loss,
          step_ + 1);
    return loss;
  };
  const bool recorded = step_ % kRecordEvery == 0;
  const FlopCounter counter;
  const std::vector<Tensor> curvature = estimates();
  if (options_.graph && warm_ && !recorded) {
    if (!graph_)
      graph_.emplace(device(), [this] {
        losses_of_graph_ = compute_gradients(false);
        update();
      });
    add_estimates(curvature);
    graph_->replay();
    return sum_of(losses_of_graph_);
  }
  const double loss = sum_of(compute_gradients(recorded));
  const bool finite = scale_.unscale(task_.model.parameters());
  if (recorded) record_gradients();
  if (finite) {
    add_estimates(curvature);
    update();
  }
  flops_ = counter.total();
  warm_ = true;
  return loss;
}

/// Saves the run and returns where, or why that failed: the end of another error message.
std::string Trainer::saved_as(const std::string& path) {
  try {
    save(path);
  } catch (const std::exception& error) {
    return fmt::format("; it could not be saved: {}", error.what());
  }
  return fmt::format("; the run after step {} is in {}", step_, path);
}

/// Makes a step. If it fails before it has changed a parameter, the state before the step is saved
/// next to the checkpoint, because the checkpoint itself may be better.
double Trainer::step_or_save() {
  const Generator random = default_generator();
  try {
    return train_step();
  } catch (const std::exception& error) {
    if (moving_ || step_ == 0 || options_.checkpoint.empty()) throw;
    default_generator() = random;
    throw Error(error.what() + saved_as(options_.checkpoint + ".failed"));
  }
}

void Trainer::record_gradients() {
  for (size_t i = 0; i < layers_.size(); ++i)
    record_.grad_norm_by_layer[i].add(static_cast<double>(step_ + 1),
                                      optim::gradient_norm(layers_[i].parameters));
}

void Trainer::show_progress(double loss, double seconds, bool last) {
  if (!options_.progress) return;
  const std::vector<double>& validation = record_.validation_loss.y;
  std::vector<std::string> metrics;
  for (const report::MetricValues& metric : record_.metrics)
    if (!metric.values.y.empty())
      metrics.push_back(metric.name + " " + formatted(metric.format, metric.last()));
  display_.show({.run = options_.run,
                 .step = step_,
                 .steps = options_.steps,
                 .loss = loss,
                 .validation_loss = validation.empty() ? NAN : validation.back(),
                 .metrics = std::move(metrics),
                 .seconds_left = static_cast<double>(options_.steps - step_) * seconds,
                 .speed = static_cast<double>(tokens()) / seconds,
                 .item = task_.words.item,
                 .bytes = static_cast<double>(memory::statistics(device()).peak),
                 .last = last});
}

void Trainer::note_peak() { peak_ = std::max(peak_, static_cast<double>(memory::statistics(device()).peak)); }

void Trainer::run(const std::function<bool()>& stop) {
  optimizer_->move_to(optim::Optimizer::Point::training);
  const ModeScope training(task_.model, true);
  const double start = now() - seconds_;
  double mean_seconds = 0;
  memory::reset_peak(device());  // of this run only, without earlier work of the process
  open_metrics();
  while (step_ < options_.steps && !is_out_of_patience() && !stop()) {
    const double before = now();
    const double loss = step_or_save();
    const double seconds = now() - before;
    mean_seconds = mean_seconds == 0 ? seconds : 0.95 * mean_seconds + 0.05 * seconds;
    const auto x = static_cast<double>(++step_);
    last_loss_ = loss;
    record_.train_loss.add(x, loss);
    record_.learning_rate.add(x, rates_.rate(step_));
    record_.flops.add(x, flops_);
    record_.speed.add(x, std::round(static_cast<double>(tokens()) / seconds));
    if (step_ % options_.evaluate_every == 0 || step_ == options_.steps) evaluate();
    show_progress(loss, mean_seconds);
    seconds_ = now() - start;
    note_peak();
    write_metrics();
    keep_best();
    if (options_.save_every > 0 && step_ % options_.save_every == 0 && step_ < options_.steps)
      save(options_.checkpoint);
  }
  const bool early = is_out_of_patience() && step_ < options_.steps;
  if (early && mean_seconds > 0) show_progress(last_loss_, mean_seconds, true);
  const report::Series& losses = record_.validation_loss;
  if ((step_ >= options_.steps || early) &&
      (losses.x.empty() || losses.x.back() != static_cast<double>(step_)))
    evaluate();
  if (!losses.y.empty()) record_.final_validation_loss = losses.y.back();
  record_.seconds = seconds_ = now() - start;
  note_peak();
  record_.peak_memory_bytes = peak_;
  optimizer_->move_to(optim::Optimizer::Point::evaluation);
  if (!options_.checkpoint.empty()) save(options_.checkpoint);
}

}  // namespace vitrine::nn::training
