// How good vectors of sentences are: retrieval, alignment and uniformity.
#pragma once

#include "nn/metrics/metric.h"

namespace vitrine::nn {

/// The number of rows i of a [N, C] whose nearest row of b [N, C], by cosine, is row i, and N.
/// Among equally near rows the first one counts.
WeightedSum retrieval_accuracy(const Tensor& a, const Tensor& b);
/// The mean of |a_i − b_i|² for rows of unit length, in [0, 4]: how near the vectors of a pair are.
/// Less is better. Wang and Isola 2020.
double alignment(const Tensor& a, const Tensor& b);
/// The logarithm of the mean of exp(−2·|x_i − x_j|²) over i ≠ j, for rows of unit length: in
/// [−8, 0], and 0 if all rows are equal. Less is better: the vectors then fill the sphere. Wang and
/// Isola 2020. Fewer than two rows are an error.
double uniformity(const Tensor& x);

}  // namespace vitrine::nn
