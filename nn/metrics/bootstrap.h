// Means and their confidence intervals, by the bootstrap (Efron 1979; percentile intervals, Efron
// and Tibshirani 1993, chapter 13).
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace vitrine::nn {

inline constexpr int kResamples = 10000;

/// A mean and its 95 % confidence interval. NaN if unknown.
struct MeanInterval {
  double mean = std::numeric_limits<double>::quiet_NaN();
  double low = std::numeric_limits<double>::quiet_NaN(), high = std::numeric_limits<double>::quiet_NaN();
  int64_t count = 0;  ///< the number of values

  /// Whether the interval is known and does not contain 0.
  bool excludes_zero() const { return low > 0 || high < 0; }
};

/// The mean of the values. The interval is from the 2.5th to the 97.5th percentile of the means of
/// kResamples resamples; a resample has as many values as the input, drawn with replacement. The
/// draws depend only on the number of values. No values give NaN; one value has no interval. For
/// few values the intervals are too narrow: n differences without a real effect all have the same
/// sign, so that the interval excludes 0, in 2 of 2ⁿ cases.
MeanInterval bootstrap_mean(const std::vector<double>& values);

}  // namespace vitrine::nn
