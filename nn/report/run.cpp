#include "nn/report/run.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "core/error.h"

namespace vitrine::nn::report {

void WeightDistribution::add(float weight) {
  if (std::isnan(weight)) {
    ++not_a_number;
    return;
  }
  const double bin =
      weight > 0 ? std::floor((std::log10(static_cast<double>(weight)) + decades) * bins_per_decade) : -1;
  if (bin < 0) {
    ++below;
  } else {
    // The weight 1 belongs to the last bin
    ++counts[std::min(static_cast<size_t>(bin), counts.size() - 1)];
  }
}

void WeightDistribution::add(const WeightDistribution& others) {
  std::transform(counts.begin(), counts.end(), others.counts.begin(), counts.begin(), std::plus());
  below += others.below;
  not_a_number += others.not_a_number;
}

double WeightDistribution::total() const { return std::accumulate(counts.begin(), counts.end(), below); }

double WeightDistribution::share_below(int exponent) const {
  check(exponent >= -decades && exponent <= 0, "WeightDistribution: exponent {} is not in [{}, 0]", exponent,
        -decades);
  const auto bins = static_cast<std::ptrdiff_t>(exponent + decades) * bins_per_decade;
  return std::accumulate(counts.begin(), counts.begin() + bins, below) / total();
}

}  // namespace vitrine::nn::report
