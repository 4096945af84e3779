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

}  // namespace vitrine::test
