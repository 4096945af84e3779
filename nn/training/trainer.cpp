#include "nn/training/trainer.h"

#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "core/allocator.h"
#include "core/creation.h"
#include "core/stream.h"
#include "ops/elementwise.h"
#include "ops/loss.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace vitrine::nn::training {
namespace {

constexpr int64_t kRecordEvery = 10;  // steps between recorded gradient norms

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::vector<Parameter> with_rank(const std::vector<std::pair<std::string, Parameter>>& named, bool matrices) {
  std::vector<Parameter> result;
  for (const auto& [name, p] : named)
    if ((p.shape().rank() >= 2) == matrices) result.push_back(p);
  return result;
}

double norm_of(const Tensor& x) { return std::sqrt(sum(square(cast(x, DType::float64))).item()); }

/// What would else be found out after an hour of training.
const TrainingOptions& checked(const TrainingOptions& o) {
  for (auto [name, value] : {std::pair{"steps", o.steps},
                             {"batch", o.batch},
                             {"accumulate", o.accumulate},
                             {"evaluate_every", o.evaluate_every}})
    check(value > 0, "training: {} is {}, wanted at least 1", name, value);
  check(o.save_every >= 0 && (o.save_every == 0 || !o.checkpoint.empty()),
        "training: save_every is {}, wanted at least 0, and a checkpoint to write", o.save_every);
  check(o.clip >= 0, "training: clip is {}, wanted at least 0", o.clip);
  for (const auto& [name, path] : {std::pair{"checkpoint", &o.checkpoint}, {"metrics", &o.metrics}}) {
    const auto folder = std::filesystem::path(*path).parent_path();
    check(folder.empty() || std::filesystem::is_directory(folder), "training: there is no folder for {} {}",
          name, *path);
  }
  return o;
}

/// The tokens of a split, all of which the model must know, and as many as a window wants.
const std::vector<int64_t>& checked(const char* split, const std::vector<int64_t>& tokens,
                                    const GptOptions& model) {
  check(std::ssize(tokens) > model.context,
        "training: the {} text has {} tokens, wanted more than the context of {}", split, tokens.size(),
        model.context);
  for (size_t i = 0; i < tokens.size(); ++i)
    check(tokens[i] >= 0 && tokens[i] < model.vocabulary,
          "training: the {} text has the token {} at position {}, outside [0, {})", split, tokens[i], i,
          model.vocabulary);
  return tokens;
}

/// While it lives, what a backward brings to the projected queries, keys and values of each layer is measured. It asks for no
/// weights: attention stays fused, and checkpointed blocks stay checkpointed.
class PathRecorder {
 public:
  PathRecorder(Gpt& model, std::vector<PathGradients>& paths, double step, double scale) : model_(model) {
    for (size_t layer = 0; layer < paths.size(); ++layer)
      model.blocks[layer]->attention.on_projected = [&path = paths[layer], step, scale](
                                                        const Tensor& q, const Tensor& k, const Tensor& v) {
        Tape* tape = Tape::recording();
        if (tape == nullptr) return;  // the first run of a checkpointed block
        for (auto [x, series] : {std::pair{&q, &path.q}, {&k, &path.k}, {&v, &path.v}})
          tape->on_gradient(*x, [step, scale, into = series](const Tensor& gradient) {
            into->add(step, norm_of(gradient) / scale);
            return Tensor();
          });
      };
  }
  ~PathRecorder() {
    for (const auto& block : model_.blocks) block->attention.on_projected = nullptr;
  }
  PathRecorder(const PathRecorder&) = delete;
  PathRecorder& operator=(const PathRecorder&) = delete;

 private:
  Gpt& model_;
};

}  // namespace

Trainer::Trainer(Gpt& model, const std::vector<int64_t>& training, const std::vector<int64_t>& validation,
                 optim::Schedule schedule, TrainingOptions options)
    : model_(model),
      training_(checked("training", training, model.options()), checked(options).batch,
                model.options().context, options.seed),
      validation_(checked("validation", validation, model.options()), options.batch, model.options().context,
                  options.seed),
      schedule_(std::move(schedule)),
      options_(std::move(options)),
      named_(model.named_parameters()),
      optimizer_(optim::make_optimizer(options_.optimizer, with_rank(named_, true),
                                       {.beta2 = options_.beta2, .weight_decay = options_.weight_decay})),
      scale_(model.tokens.weight.dtype()) {
  check(schedule_ != nullptr, "training: there is no schedule");
  check(!options_.graph || scale_.value() == 1,
        "training: the scale of float16 losses is chosen on the CPU, which a graph leaves out; use bfloat16");
  optimizer_->add_group({with_rank(named_, false), {0, 0}});
  for (int64_t layer = 0; layer < model.options().layers; ++layer)
    report_.grad_norm_by_layer.push_back({fmt::format("layer {}", layer), {}, {}});
  for (int64_t layer = 0; layer < model.options().layers; ++layer)
    report_.grad_norm_by_path.push_back(
        {static_cast<int>(layer), {"Q", {}, {}}, {"K", {}, {}}, {"V", {}, {}}});
  report_.train_loss.name = "training";
  report_.validation_loss.name = "validation";
  report_.parameters = model.parameter_count();
  report_.vocabulary_size = model.options().vocabulary;
}

void Trainer::load_batches() {
  batches_.resize(static_cast<size_t>(options_.accumulate));
  for (size_t i = 0; i < batches_.size(); ++i) {
    const Batch on_cpu = training_.batch(step_ * options_.accumulate + static_cast<int64_t>(i));
    for (const auto part : {&Batch::inputs, &Batch::targets}) {
      Tensor& x = batches_[i].*part;
      if (!x.defined()) x = empty((on_cpu.*part).shape(), DType::int64, device());
      copy_async(x, on_cpu.*part);
    }
  }
}

std::vector<Tensor> Trainer::compute_gradients(bool recorded) {
  optimizer_->zero_grad();
  std::vector<Tensor> losses;
  for (const Batch& batch : batches_) {
    std::optional<PathRecorder> paths;
    if (recorded && &batch == &batches_.back())
      paths.emplace(model_, report_.grad_norm_by_path, static_cast<double>(step_ + 1), scale_.value());
    Tape tape;
    const Tensor mean = cross_entropy(model_.forward(batch.inputs), batch.targets) *
                        (1.0 / static_cast<double>(options_.accumulate));
    losses.push_back(mean);
    tape.backward(scale_.value() == 1 ? mean : mean * scale_.value());
  }
  return losses;
}

void Trainer::update() {
  if (options_.clip > 0) optim::clip_gradients(model_.parameters(), options_.clip);
  optimizer_->step();
}

double Trainer::train_step() {
  load_batches();
  optimizer_->set_lr(schedule_(step_));
  const auto sum_of = [this](const std::vector<Tensor>& losses) {
    double loss = 0;
    for (const Tensor& x : losses) loss += x.item();
    check(std::isfinite(loss), "training: the loss is {} at step {}; lower the learning rate", loss,
          step_ + 1);
    return loss;
  };
  const bool recorded = step_ % kRecordEvery == 0;
  if (options_.graph && warm_ && !recorded) {
    if (!graph_)
      graph_.emplace(device(), [this] {
        losses_of_graph_ = compute_gradients(false);
        update();
      });
    graph_->replay();
    return sum_of(losses_of_graph_);
  }
  const double loss = sum_of(compute_gradients(recorded));
  const bool finite = scale_.unscale(model_.parameters());
  if (recorded) record_gradients();
  if (finite) update();
  warm_ = true;
  return loss;
}

void Trainer::record_gradients() {
  for (size_t layer = 0; layer < report_.grad_norm_by_layer.size(); ++layer) {
    const std::string prefix = fmt::format("blocks.{}.", layer);
    std::vector<Parameter> own;
    for (const auto& [name, p] : named_)
      if (name.starts_with(prefix)) own.push_back(p);
    report_.grad_norm_by_layer[layer].add(static_cast<double>(step_ + 1), optim::gradient_norm(own));
  }
}

void Trainer::show_progress(double loss, double seconds) {
  // A terminal has one line that lives; a file gets ten that stay.
  const bool live = isatty(STDERR_FILENO) != 0;
  const auto lines = [&](int64_t step) { return live ? step / 10 : step * 10 / options_.steps; };
  if (!options_.progress || (lines(step_) == lines(step_ - 1) && step_ != options_.steps)) return;
  const double speed = 1 / seconds, left = static_cast<double>(options_.steps - step_) * seconds;
  const double tokens =
      static_cast<double>(options_.batch * options_.accumulate * model_.options().context) * speed;
  std::fprintf(stderr, "%sstep %ld of %ld  loss %.4f  %.0f tokens/s  %.0f s left  %.0f MiB",
               live ? "\r\033[K" : "", static_cast<long>(step_), static_cast<long>(options_.steps), loss,
               tokens, left, static_cast<double>(memory::statistics(device()).peak) / (1 << 20));
  if (!live || step_ == options_.steps) std::fputc('\n', stderr);
}

void Trainer::run(const std::function<bool()>& stop) {
  const ModeScope training(model_, true);
  const double start = now();
  double mean_seconds = 0;
  memory::reset_peak(device());  // of this run alone, whatever ran before in the process
  while (step_ < options_.steps && !stop()) {
    const double before = now();
    const double loss = train_step();
    const double seconds = now() - before;
    mean_seconds = mean_seconds == 0 ? seconds : 0.95 * mean_seconds + 0.05 * seconds;
    const auto x = static_cast<double>(++step_);
    report_.train_loss.add(x, loss);
    report_.learning_rate.add(x, schedule_(step_ - 1));
    report_.tokens_per_second.add(
        x, std::round(static_cast<double>(options_.batch * options_.accumulate * model_.options().context) /
                      seconds));
    show_progress(loss, mean_seconds);
    if (step_ % options_.evaluate_every == 0 || step_ == options_.steps)
      report_.validation_loss.add(x, validation_loss());
    write_metrics();
    if (options_.save_every > 0 && step_ % options_.save_every == 0 && step_ < options_.steps)
      save(options_.checkpoint);
  }
  Series& losses = report_.validation_loss;
  const auto last = static_cast<double>(step_);
  if (step_ >= options_.steps && (losses.x.empty() || losses.x.back() != last))
    losses.add(last, validation_loss());
  if (!losses.y.empty()) report_.final_validation_loss = losses.y.back();
  report_.seconds = now() - start;
  report_.peak_memory_bytes = static_cast<double>(memory::statistics(device()).peak);
  if (!options_.checkpoint.empty()) save(options_.checkpoint);
}

double Trainer::validation_loss() {
  const Tape::Pause pause;
  const ModeScope evaluation(model_, false);
  double total = 0, count = 0;
  for (const Batch& on_cpu : validation_.whole()) {
    const Batch batch = on_cpu.to(device());
    const auto tokens = static_cast<double>(batch.targets.numel());
    total += tokens * cross_entropy(model_.forward(batch.inputs), batch.targets).item();
    count += tokens;
  }
  return total / count;
}

}  // namespace vitrine::nn::training
