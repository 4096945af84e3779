// Losses.
#pragma once

#include "core/tensor.h"

namespace vitrine {

enum class Reduction { mean, sum, none };

struct CrossEntropyOptions {
  Reduction reduction = Reduction::mean;
  double label_smoothing = 0;   ///< s: the target is (1 − s) at the label plus s/V everywhere
  int64_t ignore_index = -100;  ///< rows with this target count for nothing
  Tensor class_weights =
      {};  ///< [V]: each row counts by its target's weight (mean divides by the sum of weights)
};

/// −log softmax(logits)[target] for logits [..., V] and int targets [...]. One pass: the probabilities are
/// never kept; the backward forms softmax − target from the saved log-sum-exp. A mean over no rows is 0.
/// Out-of-range targets are errors.
Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options = {});

/// −log_probabilities[target]: the same from log-probabilities.
Tensor nll_loss(const Tensor& log_probabilities, const Tensor& targets,
                const CrossEntropyOptions& options = {});
/// (x − y)².
Tensor mse_loss(const Tensor& x, const Tensor& y, Reduction reduction = Reduction::mean);
/// Binary cross-entropy of logits x and targets y in [0, 1], as max(x, 0) − x·y + log1p(e^−|x|).
Tensor binary_cross_entropy(const Tensor& logits, const Tensor& targets,
                            Reduction reduction = Reduction::mean);

namespace define {
Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options);
Tensor binary_cross_entropy(const Tensor& logits, const Tensor& targets, Reduction reduction);
}  // namespace define

}  // namespace vitrine
