// A model whose choices differ, for tests of generation.
#pragma once

#include "core/random.h"
#include "nn/models/gpt.h"

namespace vitrine::test {

/// All weights are normal with deviation 0.5, the same at every call. As initialized, a model gives
/// nearly equal probabilities.
inline nn::Gpt lively(const nn::GptOptions& options) {
  nn::Gpt model(options);
  for (Parameter& p : model.parameters()) {
    Generator g(p.name().size());
    p.assign(randn(p.shape(), DType::float32, Device::cpu, 0, 0.5, g));
  }
  return model;
}

}  // namespace vitrine::test
