// Errors: one exception type and one check. A message names the op and the argument, and says what
// was expected and what was found:
//   matmul: x is [32, 64] and y is [63, 10]: the inner sizes 64 and 63 differ
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace vitrine {

/// The only exception type of the library; what() is the message.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message) : std::runtime_error(message) {}
};

/// Throws an Error with a message in fmt's syntax.
template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

/// Throws unless `condition` holds. The arguments are formatted only on failure.
template <class... Args>
inline void check(bool condition, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) [[unlikely]]
    fail(format, std::forward<Args>(args)...);
}

}  // namespace vitrine
