// The training that benchmarks measure: the counterpart of `train` in bench/pytorch/gpt.py.
#pragma once

#include <nlohmann/json.hpp>

#include "bench/measure/sizes.h"

namespace vitrine::bench {

/// Trains a GPT of the size for size.steps steps, after two steps that are not measured. bfloat16
/// keeps float32 masters of the parameters. A `clip` above 0 limits the norm of the gradients.
/// {"seconds": of each step, "loss": the last, "peak_mib"}.
nlohmann::json train(const Size& size, DType dtype = DType::float32, DType gradients = DType::float32,
                     double clip = 0);

}  // namespace vitrine::bench
