// The sections of the page on the scale of attention.
#pragma once

#include <cstdint>
#include <vector>

#include "nn/report/page.h"

namespace vitrine::labs {

nn::report::Section variance_section();    ///< why 1/√D, and what a model has at initialization
nn::report::Section objective_section();   ///< the gradient as a function of α
nn::report::Section normal_section();      ///< α* for normal scores
nn::report::Section cosine_section();      ///< α* for cosines
nn::report::Section decoder_section();     ///< one α for all positions of a decoder
nn::report::Section entropy_section();     ///< Shannon and Rényi entropy as n grows
nn::report::Section sinusoidal_section();  ///< sinusoidal positions, seen from another position

/// α(1 − Σp²) as a function of α, for 64 and 1024 keys: approximation and mean of draws.
nn::report::LineChart objective_chart();

/// The number of samples of n scores in each mean.
inline constexpr int kDraws = 200;
/// The mean of α(1 − Σp²) over samples of n standard normal scores, for each α.
std::vector<double> sampled_objective(int64_t n, const std::vector<double>& alphas, int draws = kDraws);
/// The numbers of keys of the source's figures: 40, 80, …, 20000.
std::vector<double> key_counts();
/// The c for which c·f(n) fits y over key_counts() with the least squares.
double fitted_factor(const std::vector<double>& y, double (*f)(double));

}  // namespace vitrine::labs
