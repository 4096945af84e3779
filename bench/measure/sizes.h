// The three models that the benchmarks train and sample.
#pragma once

#include <string>
#include <vector>

#include "nn/models/gpt.h"

namespace vitrine::bench {

struct Size {
  std::string name;
  nn::GptOptions model;
  int64_t batch, time;
  int steps;  ///< in one process of a benchmark
};

/// (a) a character model, (b) a larger one with longer sequences, (c) GPT-2 124M.
const std::vector<Size>& sizes();
const Size& size(const std::string& name);
/// The size as arguments of bench/pytorch/gpt.py.
std::string arguments(const Size& size);

/// Fresh random tokens [batch, time] for each step: on tokens learned by heart the gradients would
/// become denormal.
Tensor random_tokens(const Size& size, Device device = Device::cpu);

/// Operations of the matrix products in one step of training: forward, and twice that backward. Of
/// causal attention one half is needed.
double product_operations(const Size& size);

}  // namespace vitrine::bench
