// Means and their uncertainty, by the bootstrap (Efron 1979; percentile intervals, Efron and
// Tibshirani 1993, chapter 13).
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace vitrine::nn {

inline constexpr int kResamples = 10000;

/// A mean, and between which values it lies with 95 % confidence. NaN where it is not known.
struct MeanInterval {
  double mean = std::numeric_limits<double>::quiet_NaN();
  double low = std::numeric_limits<double>::quiet_NaN(), high = std::numeric_limits<double>::quiet_NaN();
  int64_t count = 0;  ///< values of which it is the mean

  /// Whether the interval is known and does not hold 0.
  bool excludes_zero() const { return low > 0 || high < 0; }
};

/// The mean of the values with the 2.5 and 97.5 per cent points of the means of kResamples
/// resamples, each as many values drawn with replacement. The draws depend on the number of
/// values alone. No values give NaN, one value has no interval. Means of few values vary more
/// than such intervals say: n differences that mean nothing have one sign, so that 0 is
/// outside, in 2 of 2ⁿ cases.
MeanInterval bootstrap_mean(const std::vector<double>& values);

}  // namespace vitrine::nn
