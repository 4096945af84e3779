#include "core/gradcheck/differences.h"

#include <algorithm>
#include <cmath>

#include "core/creation.h"

namespace vitrine {

std::vector<double> central_difference(const Path& f, double h) {
  const auto a = f(-2 * h), b = f(-h), c = f(h), d = f(2 * h);
  std::vector<double> slope(a.size());
  // With this order of operations, the slope of a constant is exactly 0.
  for (size_t i = 0; i < a.size(); ++i) slope[i] = (8 * (c[i] - b[i]) - (d[i] - a[i])) / (12 * h);
  return slope;
}

SettledDifference settled_difference(const Path& f, double scale) {
  SettledDifference best{{}, INFINITY, 0};
  std::vector<double> before;
  double h = 0.1 * scale;
  for (int step = 0; step < 8; ++step, h /= 10) {
    const auto slope = central_difference(f, h);
    double change = before.empty() ? INFINITY : 0;
    for (size_t i = 0; i < before.size(); ++i) {
      const double difference = std::abs(slope[i] - before[i]);
      change = std::isnan(difference) ? INFINITY : std::max(change, difference);
    }
    if (best.slope.empty() || change < best.uncertainty) best = {slope, change, h};
    before = slope;
  }
  return best;
}

Tensor shifted(const Tensor& x, const std::vector<double>& direction, double t) {
  std::vector<double> values = x.values();
  for (size_t i = 0; i < values.size(); ++i) values[i] += t * direction[i];
  return copy_to(tensor(values, x.shape(), x.dtype()), x.device());
}

double distance(const std::vector<double>& got, const std::vector<double>& want, double floor) {
  double difference = 0, size = floor;
  for (size_t i = 0; i < got.size(); ++i) {
    const bool both_nan = std::isnan(got[i]) && std::isnan(want[i]);
    if (both_nan || got[i] == want[i]) continue;
    if (!std::isfinite(got[i]) || !std::isfinite(want[i])) return INFINITY;
    difference = std::max(difference, std::abs(got[i] - want[i]));
  }
  for (double w : want)
    if (std::isfinite(w)) size = std::max(size, std::abs(w));
  return difference / size;
}

}  // namespace vitrine
