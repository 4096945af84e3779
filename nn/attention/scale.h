// How large the scale of attention scores should be, seen from the gradient (Su 2023, "The scale
// operation of attention from the perspective of gradient maximization"). For p = softmax(α·s) half
// the L1 norm of ∂p/∂s is α(1 − Σp²). It vanishes for small and for large α; the α that maximizes
// its approximation in between is computed here.
#pragma once

#include <cstdint>
#include <span>

namespace vitrine::nn {

/// α that maximizes α(1 − e^{α²}/n), for n standard normal scores: (1 + 2α²)·e^{α²} = n, by
/// Newton's method. n > 1.
double gradient_optimal_scale(double n);
/// The same for cosine scores of random directions in d dimensions (density ∝ (1 − s²)^{(d−3)/2}):
/// maximizes α(1 − g(2α)/(n·g(α)²)), g(α) = ₀F₁(; d/2; α²/4). The scale is the whole factor of the
/// cosine. Where it is beyond 2^18, as for 1400 keys in 2 dimensions, n is an error.
double gradient_optimal_cosine_scale(double n, double d);
/// The two objectives.
double normal_objective(double alpha, double n);
double cosine_objective(double alpha, double n, double d);
/// α(1 − Σp²) of p = softmax(α·scores).
double exact_objective(double alpha, std::span<const double> scores);
/// log n / log 512, which multiplies 1/√d: keeps the entropy of the weights about constant in n (Su
/// 2021).
double entropy_factor(double n);

}  // namespace vitrine::nn
