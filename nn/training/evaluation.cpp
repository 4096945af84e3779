// What a Trainer does at an evaluation: the loss and the metrics of the validation split, and the
// checkpoint of the best model.
#include <algorithm>
#include <cmath>

#include "core/tape.h"
#include "nn/training/trainer.h"

namespace vitrine::nn::training {

void Trainer::evaluate() {
  const auto x = static_cast<double>(step_);
  const double loss = validation_loss();
  record_.validation_loss.add(x, loss);
  const std::vector<double> values = validation_metrics(loss);
  for (size_t i = 0; i < values.size(); ++i) record_.metrics[i].values.add(x, values[i]);
}

double Trainer::validation_loss() {
  const Tape::Pause pause;
  const optim::PointScope point(*optimizer_, optim::Optimizer::Point::evaluation);
  const ModeScope evaluation(task_.model, false);
  double total = 0, count = 0;
  for (const Batch& on_cpu : task_.validation()) {
    const Batch batch = on_cpu.to(device());
    const auto tokens = static_cast<double>(batch.tokens);
    total += tokens * task_.loss(batch.tensors).item();
    count += tokens;
  }
  check(count > 0, "training: the validation batches have no tokens");
  check(std::isfinite(total), "training: the validation loss is {} after step {}; lower the learning rate",
        total / count, step_);
  return total / count;
}

std::vector<double> Trainer::validation_metrics(double loss) {
  const Tape::Pause pause;
  const optim::PointScope point(*optimizer_, optim::Optimizer::Point::evaluation);
  const ModeScope evaluation(task_.model, false);
  std::vector<WeightedSum> sums(task_.metrics.size());
  const bool by_batch = std::any_of(task_.metrics.begin(), task_.metrics.end(),
                                    [](const Metric& metric) { return metric.of_batch != nullptr; });
  for (const Batch& on_cpu : by_batch ? task_.validation() : std::vector<Batch>()) {
    const Batch batch = on_cpu.to(device());
    for (size_t i = 0; i < sums.size(); ++i) {
      if (!task_.metrics[i].of_batch) continue;
      const WeightedSum more = task_.metrics[i].of_batch(batch.tensors);
      sums[i].sum += more.sum, sums[i].weight += more.weight;
    }
  }
  std::vector<double> values;
  for (size_t i = 0; i < sums.size(); ++i)
    values.push_back(task_.metrics[i].of_batch ? sums[i].sum / sums[i].weight
                                               : task_.metrics[i].of_split(loss));
  return values;
}

std::string best_checkpoint_of(const std::string& checkpoint) {
  const std::string ending = ".safetensors";
  const bool has = checkpoint.ends_with(ending);
  return checkpoint.substr(0, checkpoint.size() - (has ? ending.size() : 0)) + ".best" + (has ? ending : "");
}

std::pair<const report::Series*, bool> Trainer::chosen_by() const {
  for (const report::MetricValues& metric : record_.metrics)
    if (metric.name == options_.best_by) return {&metric.values, metric.more_is_better};
  return {&record_.validation_loss, false};
}

void Trainer::keep_best() {
  const auto [values, more_is_better] = chosen_by();
  if (options_.best_by.empty() || values->x.empty() || values->x.back() != static_cast<double>(step_)) return;
  const double value = values->y.back();
  const bool better = std::isnan(best_) || (more_is_better ? value > best_ : value < best_);
  if (!better || std::isnan(value)) {
    ++worse_;
    return;
  }
  best_ = value, worse_ = 0;
  save(best_checkpoint_of(options_.checkpoint));
}

bool Trainer::is_out_of_patience() const { return options_.patience > 0 && worse_ >= options_.patience; }

}  // namespace vitrine::nn::training
