// How large initial weights are.
#pragma once

namespace vitrine::nn {

/// The standard deviation of the initial weights of GPT-2 and BERT, and of models that follow them.
inline constexpr double kDeviation = 0.02;

}  // namespace vitrine::nn
