// The training that benchmarks measure: the counterpart of `train` in bench/pytorch/gpt.py.
#pragma once

#include <nlohmann/json.hpp>

#include "bench/measure/sizes.h"

namespace vitrine::bench {

/// Trains a GPT of the size for size.steps steps in float32, after two steps that are not measured.
/// {"seconds": of each step, "loss": the last, "peak_mib"}.
nlohmann::json train(const Size& size);

}  // namespace vitrine::bench
