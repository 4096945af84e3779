// What a task measures on its validation split besides the loss.
//
//   Metric top1{.name = "accuracy",
//               .of_batch = [&](const auto& x) { return accuracy(model.forward(x[0]), x[1]); }};
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/tensor.h"

namespace vitrine::nn {

/// A sum, and how many things it is the sum of. A mean over a split is Σ sum / Σ weight of its
/// batches.
struct WeightedSum {
  double sum = 0, weight = 0;
};

/// A number that tells how good a model is on a split: the mean of `of_batch` over batches, or
/// `of_split`. Exactly one of the two is given. Either runs in evaluation mode, without a tape.
struct Metric {
  std::string name;  ///< "accuracy"
  bool more_is_better = true;
  /// Of a batch's tensors, which are on the model's device. The model runs once more for each
  /// such metric.
  std::function<WeightedSum(const std::vector<Tensor>& batch)> of_batch = {};
  /// Of the whole split, whose mean loss is given.
  std::function<double(double loss)> of_split = {};
  std::string format = "{:.4f}";  ///< of a printed value (fmt)
};

/// A metric's value as its format prints it; "–" for NaN. A format that prints no number is an
/// error.
std::string formatted(const std::string& format, double value);

}  // namespace vitrine::nn
