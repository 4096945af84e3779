// Connectionist temporal classification: labels for a sequence whose alignment is unknown.
#pragma once

#include "core/tensor.h"
#include "ops/loss.h"

namespace vitrine {

struct CtcOptions {
  Tensor input_lengths = {};   ///< int64 [B], in [0, T]; undefined: T frames in each row
  Tensor target_lengths = {};  ///< int64 [B], in [0, L]; undefined: L labels in each row
  int64_t blank = 0;           ///< the class without a label
  /// mean: each loss divided by max(1, its number of labels), then the mean over rows
  Reduction reduction = Reduction::mean;
  bool zero_infinity = false;  ///< a row without a path has the loss 0 in place of ∞
};

/// −log Σ p(path) over all paths of T frames that give the labels after repeats are merged and
/// blanks dropped. logits [B, T, V] of any floating dtype, targets int [B, L], of which elements
/// from a row's target length on are not read. The sum is the recursion over frames α_t(s) = log Σ
/// e^α_{t−1}(s, s − 1, s − 2) + log p_t(z_s), where z has a blank around each label and s − 2
/// counts if z_s and z_{s−2} differ. Losses are float32 or wider. Without a path a loss is ∞ and
/// its gradient 0. Saves log-probabilities and α [B, T, 2L + 1]. Errors: shapes; a label or a
/// length out of range. Graves et al. 2006.
Tensor ctc_loss(const Tensor& logits, const Tensor& targets, const CtcOptions& options = {});

namespace define {
Tensor ctc_loss(const Tensor& logits, const Tensor& targets, const CtcOptions& options = {});
}  // namespace define

}  // namespace vitrine
