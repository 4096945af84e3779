// The scale of attention scores that maximizes the gradient (Su 2023, "The scale operation of
// attention from the perspective of gradient maximization"). For p = softmax(α·s), half the L1 norm
// of ∂p/∂s is α(1 − Σp²). It vanishes for small and for large α. These functions compute the α
// between them that maximizes an approximation of it.
#pragma once

#include <cstdint>
#include <span>

namespace vitrine::nn {

/// The α that maximizes α(1 − e^{α²}/n), for n scores from the standard normal distribution: the
/// solution of (1 + 2α²)·e^{α²} = n, by Newton's method. n > 1.
double gradient_optimal_scale(double n);
/// The same for cosine scores of random directions in d dimensions (density ∝ (1 − s²)^{(d−3)/2}):
/// the α that maximizes α(1 − g(2α)/(n·g(α)²)), g(α) = ₀F₁(; d/2; α²/4). α multiplies the cosine
/// directly, without 1/√d. If α exceeds 2^60, as for 3·10^9 keys in 2 dimensions, n is an error.
double gradient_optimal_cosine_scale(double n, double d);
/// The functions that the two scales maximize.
double normal_objective(double alpha, double n);
double cosine_objective(double alpha, double n, double d);
/// The exact α(1 − Σp²) for p = softmax(α·scores).
double exact_objective(double alpha, std::span<const double> scores);
/// log n / log 512, a factor of 1/√d. With it, the entropy of the weights depends little on n (Su
/// 2021).
double entropy_factor(double n);

}  // namespace vitrine::nn
