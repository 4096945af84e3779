#include "nn/metrics/metric.h"

#include <fmt/format.h>

#include <cmath>

#include "core/error.h"

namespace vitrine::nn {
namespace {

/// Whether a field of the format has a width or a precision of three digits: that of a record file
/// may have any, and one number would fill the memory.
bool is_wide(const std::string& format) {
  int digits = 0;
  bool in_field = false;
  for (const char c : format) {
    if (c == '{' || c == '}') in_field = c == '{';
    digits = in_field && c >= '0' && c <= '9' ? digits + 1 : 0;
    if (digits == 3) return true;
  }
  return false;
}

}  // namespace

std::string formatted(const std::string& format, double value) {
  if (std::isnan(value)) return "–";
  check(!is_wide(format), "metric: the format \"{}\" has a width or a precision of 100 or more", format);
  try {
    return fmt::format(fmt::runtime(format), value);
  } catch (const fmt::format_error& error) {
    fail("metric: the format \"{}\" prints no number: {}", format, error.what());
  }
}

}  // namespace vitrine::nn
