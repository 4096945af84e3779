// The training that benchmarks measure: the counterpart of `train` in bench/pytorch/gpt.py.
#pragma once

#include <nlohmann/json.hpp>

#include "bench/measure/sizes.h"

namespace vitrine::bench {

struct Precision {
  DType dtype = DType::float32;  ///< of the model; bfloat16: with float32 masters
  DType gradients = DType::float32;
  DType moments = DType::float32;  ///< of AdamW
};

/// Trains a GPT of the size for size.steps steps, after two steps that are not measured. A `clip`
/// above 0 limits the norm of the gradients. {"seconds": of each step, "loss": the last,
/// "peak_mib"}.
nlohmann::json train(const Size& size, const Precision& precision = {}, double clip = 0);

}  // namespace vitrine::bench
