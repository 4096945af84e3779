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
  for (size_t i = field_begin(format); i < format.size() && format[i] != '}'; ++i) {
    digits = format[i] >= '0' && format[i] <= '9' ? digits + 1 : 0;
    if (digits == 3) return true;
  }
  return false;
}

}  // namespace

size_t field_begin(const std::string& format) {
  for (size_t i = format.find('{'); i < format.size(); i = format.find('{', i + 2))
    if (i + 1 == format.size() || format[i + 1] != '{') return i;
  return format.npos;
}

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
