// Numbers that the environment gives to a test: how much it does, and from which seed on.
#pragma once

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/error.h"

namespace vitrine::test {

/// The whole number in the environment variable `name`, at least 0; `otherwise` where it is not
/// set. Anything else is an error.
inline int64_t from_environment(const char* name, int64_t otherwise) {
  const char* const set = std::getenv(name);
  if (set == nullptr) return otherwise;
  const std::string_view text = set;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  check(error == std::errc() && end == text.data() + text.size() && value >= 0,
        "{} is `{}`: wanted a whole number from 0 on", name, text);
  return value;
}

/// The number of samples of a spec row that the long checks run. It is 1 in `make test`. `make
/// check` sets it to more than there are, once. The proof `threads` sets it to 0.
inline size_t samples_of_each_row() { return static_cast<size_t>(from_environment("VITRINE_SAMPLES", 1)); }

/// Whether the long checks run all of their cases. Otherwise they run a part, in which each value
/// of each parameter is still seen.
inline bool all_samples() { return samples_of_each_row() > 1; }

}  // namespace vitrine::test
