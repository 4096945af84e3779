// A model that is small enough for tests.
#pragma once

#include <string>

#include "core/creation.h"
#include "core/random.h"
#include "nn/models/gpt.h"

namespace vitrine::test {

inline nn::GptOptions tiny_gpt(const std::string& attention = "standard") {
  return {.vocabulary = 11, .context = 8, .width = 8, .layers = 2, .heads = 2, .mixer = attention};
}

/// Tokens of its vocabulary; every call returns the same.
inline Tensor ids(int64_t batch, int64_t time) {
  Generator generator(3);
  return randint(0, 11, {batch, time}, Device::cpu, generator);
}

}  // namespace vitrine::test
