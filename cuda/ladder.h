// A ladder: several implementations (steps) of one function, from the simplest to the fastest. An
// environment variable chooses a step.
#pragma once

#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"

namespace vitrine::cuda {

/// The variable's value, or "auto" if it is empty or not set.
inline std::string ladder_setting(const char* variable) {
  const char* value = std::getenv(variable);
  return value == nullptr || *value == '\0' ? "auto" : value;
}

/// Returns the step that `setting`, the value of `variable`, names. If `supports` is false for this
/// step, returns the next lower step that is supported. "auto" begins at the top. The lowest step
/// supports everything. If `setting` is not a name of a step, the error lists the names.
template <class Step, class Supports>
const Step& choose_step(const char* variable, std::string_view setting, std::span<const Step> steps,
                        Supports&& supports) {
  size_t top = steps.size();
  if (setting != "auto") {
    while (top > 0 && steps[top - 1].name != setting) --top;
    if (top == 0) {
      std::vector<std::string_view> names;
      for (const Step& step : steps) names.push_back(step.name);
      fail("{} is {}: wanted auto or one of {}", variable, setting, fmt::join(names, ", "));
    }
  }
  while (!supports(steps[top - 1])) --top;
  return steps[top - 1];
}

}  // namespace vitrine::cuda
