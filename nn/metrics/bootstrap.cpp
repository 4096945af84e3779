#include "nn/metrics/bootstrap.h"

#include <algorithm>

#include "core/random.h"

namespace vitrine::nn {

MeanInterval bootstrap_mean(const std::vector<double>& values) {
  MeanInterval result;
  result.count = static_cast<int64_t>(values.size());
  if (values.empty()) return result;
  const auto n = static_cast<double>(values.size());
  double sum = 0;
  for (const double x : values) sum += x;
  result.mean = sum / n;
  if (values.size() < 2) return result;
  Generator generator(1);
  std::vector<double> means(kResamples);
  for (double& mean : means) {
    double drawn = 0;
    for (size_t i = 0; i < values.size(); ++i)
      drawn += values[static_cast<size_t>(generator.next_below(result.count))];
    mean = drawn / n;
  }
  std::sort(means.begin(), means.end());
  const auto outside = static_cast<size_t>(0.025 * kResamples);  // on each side
  result.low = means[outside];
  result.high = means[means.size() - 1 - outside];
  return result;
}

}  // namespace vitrine::nn
