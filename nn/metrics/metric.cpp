#include "nn/metrics/metric.h"

#include <fmt/format.h>

#include <cmath>

#include "core/error.h"

namespace vitrine::nn {

std::string formatted(const std::string& format, double value) {
  if (std::isnan(value)) return "–";
  try {
    return fmt::format(fmt::runtime(format), value);
  } catch (const fmt::format_error& error) {
    fail("metric: the format \"{}\" prints no number: {}", format, error.what());
  }
}

}  // namespace vitrine::nn
