// Losses.
#pragma once

#include "core/tensor.h"

namespace vitrine {

/// Returns the mean over all elements (over rows in cross_entropy), the sum, or each loss
/// separately.
enum class Reduction { mean, sum, none };

/// The target distribution of a row, and the weight of a row.
struct CrossEntropyOptions {
  Reduction reduction = Reduction::mean;  ///< over the rows that are not ignored
  /// s in [0, 1]: the target distribution is (1 − s) at the label plus s/V everywhere.
  double label_smoothing = 0;
  int64_t ignore_index = -100;  ///< rows with this target are ignored
  /// [V], constants: each row is weighted by its target's weight (mean divides by the sum of the
  /// weights).
  Tensor class_weights = {};
};

/// −log softmax(logits)[target] for logits [..., V] and int targets [...]. One pass, without
/// storing the probabilities: the backward computes softmax − target from the saved shift and total
/// of log Σ eˣ. A mean over no rows is 0. Targets out of range are errors. All losses of 16-bit
/// inputs are float32.
Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options = {});

/// −log_probabilities[target], the same loss from log-probabilities.
Tensor nll_loss(const Tensor& log_probabilities, const Tensor& targets,
                const CrossEntropyOptions& options = {});
/// (x − y)² for x and y of equal shape.
Tensor mse_loss(const Tensor& x, const Tensor& y, Reduction reduction = Reduction::mean);
/// −y·log σ(x) − (1 − y)·log(1 − σ(x)) for logits x and targets y in [0, 1], computed as
/// y·softplus(−x) + (1 − y)·softplus(x).
Tensor binary_cross_entropy(const Tensor& logits, const Tensor& targets,
                            Reduction reduction = Reduction::mean);

namespace define {  // the same functions in simpler ops, for tests and higher derivatives
/// −log_softmax(logits)[target], gathered.
Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options);
}  // namespace define

}  // namespace vitrine
