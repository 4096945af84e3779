// Words of synthetic texts.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

namespace vitrine::test {

/// The words with spaces between them.
inline std::string joined(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, " "));
}

}  // namespace vitrine::test
