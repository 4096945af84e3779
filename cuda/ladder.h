// A ladder: the same function in steps, from the simplest to the fastest, of which an environment
// variable chooses one.
#pragma once

#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"

namespace vitrine::cuda {

/// The variable's value, "auto" where it is empty or not set.
inline std::string ladder_setting(const char* variable) {
  const char* value = std::getenv(variable);
  return value == nullptr || *value == '\0' ? "auto" : value;
}

/// The step that `setting`, the value of `variable`, names, or where `supports` says no the next
/// one below. "auto" begins at the top. The lowest step supports everything. An error lists the
/// names when `setting` is none.
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
