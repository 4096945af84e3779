// The training that benchmarks time: the twin of `train` in bench/pytorch/gpt.py.
#pragma once

#include <nlohmann/json.hpp>

#include "bench/measure/sizes.h"

namespace vitrine::bench {

/// Trains a GPT of the size for size.steps steps in float32, after two that do not count.
/// {"seconds": of each step, "loss": the last, "peak_mib"}.
nlohmann::json train(const Size& size);

}  // namespace vitrine::bench
