// What a Trainer trains: a model, its batches and the loss of one.
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

/// A model with what it is trained on. The functions refer to what outlives them.
struct Task {
  Module& model;
  /// The micro-batch with this number, ≥ 0, on the CPU. It depends on the number alone, so that a
  /// run can be resumed.
  std::function<Batch(int64_t index)> batch;
  /// The whole validation split, on the CPU.
  std::function<std::vector<Batch>()> validation;
  /// The mean loss per token of a batch's tensors, which are on the model's device; a scalar.
  std::function<Tensor(const std::vector<Tensor>& batch)> loss;
  /// What is measured on the validation split besides the loss.
  std::vector<Metric> metrics = {};
  /// What the report says of the task.
  report::TaskWords words = {};
  /// What a resumed run has to have in common with the one before, apart from the Trainer's
  /// options: key and value.
  std::map<std::string, std::string> setting = {};
};

}  // namespace vitrine::nn::training
