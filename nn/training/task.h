// Tasks: what a Trainer trains, namely a model, its batches and its loss.
//
//   Linear model(784, 10);
//   const auto logits = [&](const Tensor& x) { return model.forward(x); };
//   const Task digits{.model = model,
//                     .batch = [&](int64_t i) { return Batch{{images(i), labels(i)}, 64}; },
//                     .validation = [&] { return held_out; },
//                     .loss = [&](const auto& x) { return cross_entropy(logits(x[0]), x[1]); },
//                     .metrics = {accuracy_metric(logits)}};
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "nn/data/batch.h"
#include "nn/metrics/metric.h"
#include "nn/module.h"
#include "nn/report/run.h"

namespace vitrine::nn::training {

/// A model and its training task. Everything that the functions refer to must outlive the task.
struct Task {
  Module& model;
  /// Micro-batch number `index`, ≥ 0, on the CPU. It must depend only on the index, so that a run
  /// can be resumed.
  std::function<Batch(int64_t index)> batch;
  /// The whole validation split, on the CPU.
  std::function<std::vector<Batch>()> validation;
  /// The mean loss per token, a scalar, for the tensors of a batch, which are on the device of the
  /// model.
  std::function<Tensor(const std::vector<Tensor>& batch)> loss;
  /// The logits [.., V] whose mean cross-entropy is the loss, for an optimizer that needs estimates
  /// of the Hessian. They then cost one gradient (optim::gauss_newton_bartlett). Empty: they come
  /// from the loss, on a tape of order 2 (optim::hutchinson).
  std::function<Tensor(const std::vector<Tensor>& batch)> logits = {};
  /// Further measurements on the validation split.
  std::vector<Metric> metrics = {};
  /// The words for the task in the report.
  report::TaskWords words = {};
  /// Settings, by key, that a resumed run must share with the original run, in addition to the
  /// options of the Trainer.
  std::map<std::string, std::string> setting = {};
};

}  // namespace vitrine::nn::training
