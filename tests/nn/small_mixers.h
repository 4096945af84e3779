// The small mixers that the checks of every mixer compute with, and their inputs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nn/mixer.h"
#include "tests/nn/mixer_checks.h"

namespace vitrine::test::small_mixers {

inline constexpr int64_t kWidth = 8, kHeads = 2, kTime = 5, kContext = 16;

/// Whether the base of this name cannot see later positions. Modules are not causal.
bool is_causal(const std::string& name);
/// A mixer, or a module with a name of tests/nn/modules.h, in float64. Its random parameters depend
/// on their paths alone, so that mixers share what they both have.
std::unique_ptr<nn::Mixer> made(const std::string& name, bool causal);
/// The same, which hides later positions only if its base cannot see them.
std::unique_ptr<nn::Mixer> made(const std::string& name);

/// float64 [2, kTime, kWidth].
Tensor input();
nn::MixerCall call_of(const std::string& name);

/// y, and the gradients of x and of each parameter for a random cotangent.
std::vector<Tensor> run(nn::Mixer& mixer, const Tensor& x, const nn::MixerCall& call, int order = 1);

Finding failed(const std::string& check, const std::string& failure);
/// A failure unless the error is at most the limit; NaN fails.
Finding within(const char* check, double error, double limit);

}  // namespace vitrine::test::small_mixers
