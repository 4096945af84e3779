// A model, a text and options that are small enough for tests.
#pragma once

#include <vector>

#include "nn/models/gpt.h"
#include "nn/training/tasks/language_modeling.h"

#include "nn/training/trainer.h"

namespace vitrine::test {

inline nn::GptOptions tiny(double dropout = 0.1) {
  return {.vocabulary = 7,
          .context = 16,
          .width = 16,
          .layers = 2,
          .heads = 2,
          .dropout = dropout,
          .mixer = "laser"};
}

/// The numbers of all parameters and buffers.
inline std::vector<double> all_values(nn::Module& model) {
  std::vector<double> result;
  for (const auto& [name, x] : model.state_dict())
    for (const double v : x.values()) result.push_back(v);
  return result;
}

/// 0 1 2 … 6 0 1 2 …: every token determines the next.
inline std::vector<int64_t> counting(int64_t n) {
  std::vector<int64_t> tokens;
  for (int64_t i = 0; i < n; ++i) tokens.push_back(i % 7);
  return tokens;
}

/// Four windows per batch, seed 1.
inline nn::training::Task text(nn::Gpt& model, std::vector<int64_t> training, std::vector<int64_t> validation,
                               int64_t batch = 4, uint64_t seed = 1) {
  return nn::training::language_modeling(model, std::move(training), std::move(validation), batch, seed);
}

inline nn::training::TrainingOptions quiet(int64_t steps) {
  nn::training::TrainingOptions o;
  o.steps = steps;
  o.progress = false;
  return o;
}

}  // namespace vitrine::test
