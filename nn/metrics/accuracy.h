// Accuracy of a classifier: the share of targets that have the largest logit.
#pragma once

#include <functional>
#include <vector>

#include "nn/metrics/metric.h"

namespace vitrine::nn {

/// Σ [argmax_c logits(…, c) = target], and the number of targets that are not `ignore_index`.
/// Logits [..., classes] of any floating-point dtype, targets [...] of an integer dtype. Among
/// equal logits the first one counts. Other shapes are an error.
WeightedSum accuracy(const Tensor& logits, const Tensor& targets, int64_t ignore_index = -100);

/// The number of sequences without a mistake, and the number of all: a sequence has none if each of
/// its targets that is not `ignore_index` has the largest logit. Logits [..., T, classes], targets
/// [..., T], with the errors of accuracy; T = 0 is an error.
WeightedSum sequence_accuracy(const Tensor& logits, const Tensor& targets, int64_t ignore_index = -100);

/// How often rows of each class have their largest logit at each class: logits [..., V], targets
/// [...] → V·V numbers, a row per true class, with the errors of accuracy. A target outside [0, V)
/// is an error.
std::vector<double> confusion_counts(const Tensor& logits, const Tensor& targets);

/// The metric "accuracy" for a model whose batches are inputs and targets.
Metric accuracy_metric(std::function<Tensor(const Tensor& inputs)> logits);

}  // namespace vitrine::nn
