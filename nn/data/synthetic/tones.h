// Digits as sequences of tones.
#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor.h"
#include "nn/data/synthetic/part.h"

namespace vitrine::nn::synthetic {

struct Tones {
  Tensor samples;               ///< float32 [T], from −1 to 1
  std::vector<int64_t> digits;  ///< the digits that are heard, in order
};

struct TonesOptions {
  int64_t rate = 8000;           ///< samples per second
  int64_t fewest = 1, most = 1;  ///< how many digits follow each other
  double noise = 0.05;           ///< normal noise, its standard deviation
};

/// A digit is three tones in order, each one of five pitches from 400 to 1600 Hz; pitch, duration
/// (50 to 90 ms a tone) and loudness vary from digit to digit. Pauses of 20 to 100 ms separate the
/// digits. One digit is a word to classify; several are a sequence to recognize, for example by
/// CTC.
Dataset<Tones> tones(Part part, int64_t size, const TonesOptions& options = {}, uint64_t seed = 0);

}  // namespace vitrine::nn::synthetic
