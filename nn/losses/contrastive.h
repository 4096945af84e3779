// Contrastive losses of pairs of vectors.
#pragma once

#include "core/tensor.h"

namespace vitrine::nn {

struct ContrastiveOptions {
  double temperature = 0.05;  ///< above 0
  double margin = 0;          ///< is subtracted from the cosine of a pair, for a stricter loss
  /// The mean of both directions, a → b and b → a. The second direction has no further negatives.
  bool symmetric = false;
};

/// InfoNCE: row i of a [N, C] belongs to row i of b [N, C]; all other rows of b, and the rows of
/// `negatives` [M, C] if defined, are negatives. The loss is the cross-entropy of the cosines
/// divided by the temperature, with target i, averaged over rows. A zero vector has the cosine 0.
/// Van den Oord et al. 2018; Gao et al. 2021 (SimCSE); the margin is that of Yang et al. 2019.
Tensor info_nce(const Tensor& a, const Tensor& b, const Tensor& negatives = {},
                const ContrastiveOptions& options = {});

}  // namespace vitrine::nn
