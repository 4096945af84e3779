// Decoding of CTC: labels from the classes of frames, without a language model.
#pragma once

#include "core/tensor.h"

namespace vitrine::nn {

/// The most likely class of each frame (the lowest at a tie), repeats merged, blanks dropped.
/// logits [B, T, V] → int64 [B, T], with −1 after the labels of a row. Row b has lengths[b] frames
/// (int64 [B]), or T if undefined.
Tensor ctc_greedy(const Tensor& logits, const Tensor& lengths = {}, int64_t blank = 0);

/// The most likely labels of each row, int64 [B, T] with −1 after them, and the logarithm of their
/// probability, float64 [B].
struct CtcLabels {
  Tensor labels, log_probabilities;
};

/// Prefix beam search: at each frame the `beam` prefixes survive whose paths, with and without a
/// blank at the end, have the largest total probability. A beam with room for all prefixes finds
/// the most likely labels. Ties: the earlier prefix, then the lower class. Computed on the CPU in
/// float64. Errors: shapes; a beam below 1. Hannun et al. 2014.
CtcLabels ctc_prefix_beam(const Tensor& logits, int64_t beam, const Tensor& lengths = {}, int64_t blank = 0);

}  // namespace vitrine::nn
