// Metrics: what a task measures on its validation split besides the loss.
//
//   Metric top1{.name = "accuracy",
//               .of_batch = [&](const auto& x) { return accuracy(model.forward(x[0]), x[1]); }};
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/tensor.h"

namespace vitrine::nn {

/// A sum and its weight, such as the number of items. The mean over a split is Σ sum / Σ weight
/// over its batches.
struct WeightedSum {
  double sum = 0, weight = 0;
};

/// A number that measures the quality of a model on a split: the mean of `of_batch` over batches,
/// or `of_split`. Exactly one of the two is given. Both run in evaluation mode, without a tape.
struct Metric {
  std::string name;  ///< "accuracy"
  bool more_is_better = true;
  /// For the tensors of a batch, which are on the device of the model. The model runs once more for
  /// each such metric.
  std::function<WeightedSum(const std::vector<Tensor>& batch)> of_batch = {};
  /// For the whole split, given its mean loss.
  std::function<double(double loss)> of_split = {};
  std::string format = "{:.4f}";  ///< for a printed value (fmt)
};

/// The value of a metric in its format; "–" for NaN. Errors: a format that is not for a number, and
/// one with a width or a precision of 100 or more.
std::string formatted(const std::string& format, double value);

/// Where the field of a format begins: its first brace that is not doubled. npos: it has no field.
size_t field_begin(const std::string& format);

}  // namespace vitrine::nn
