// How both devices draw by weights. A draw finds a random point among running sums, so rounding the
// last bit differently could give another index. This file therefore fixes the order of sums, and
// uses no function that a GPU rounds differently.
#pragma once

#include <bit>
#include <cstdint>

#include "core/tensor.h"

namespace vitrine {

/// A limit that keeps the sum of a row finite.
inline constexpr double kLargestWeight = 1e290;

/// The weights, the sums of each 32 neighbours, the sums of each 32 of those sums, and so on up to
/// the sum of the row.
struct SumTree {
  static constexpr int64_t kWidth = 32;
  static constexpr int kMostLevels = 13;  // 32¹² > 2⁵⁹

  int levels = 0;
  int64_t size[kMostLevels] = {};  // of a row
  const double* sums[kMostLevels] = {};

  explicit SumTree(const std::vector<Tensor>& levels_of_sums) {
    for (const Tensor& x : levels_of_sums) {
      size[levels] = x.size(-1);
      sums[levels++] = x.data<double>();
    }
  }

  /// The index in `row` at which the running sum first exceeds u·total. A weight of 0 is never
  /// drawn.
  VITRINE_HD int64_t find(int64_t row, double u) const {
    double point = u * sums[levels - 1][row];
    int64_t at = 0;
    for (int level = levels - 2; level >= 0; --level) {
      const int64_t begin = kWidth * at, left = size[level] - begin;
      at = begin + find_among(sums[level] + row * size[level] + begin, left < kWidth ? left : kWidth, point);
    }
    return at;
  }

 private:
  /// The same among `count` neighbours. `point` is then counted from the beginning of the one that
  /// was found.
  VITRINE_HD static int64_t find_among(const double* weights, int64_t count, double& point) {
    double sum = 0, before = 0;
    int64_t last = 0;
    for (int64_t i = 0; i < count; ++i) {
      if (weights[i] == 0) continue;
      last = i;  // if rounding leaves a rest, the last possible one takes it
      before = sum;
      sum += weights[i];
      if (sum > point) break;
    }
    point -= before;
    return last;
  }
};

/// A draw from Exponential(rate): −log(u)/rate, for u in (0, 1] of 53 bits. NaN where rate is 0.
VITRINE_HD inline double first_time(double u, double rate) {
  // u = m·2ᵉ with m in [√½, √2); log m = 2·artanh s = 2(s + s³/3 + s⁵/5 + …) with s = (m − 1)/(m +
  // 1), s² < 0.0295.
  if (!(rate > 0)) return std::bit_cast<double>(uint64_t{0x7ff8} << 48);
  const auto bits = std::bit_cast<uint64_t>(u);
  auto exponent = static_cast<int>(bits >> 52) - 1022;
  // In [½, 1)
  double m = std::bit_cast<double>((bits & ((uint64_t{1} << 52) - 1)) | uint64_t{1022} << 52);
  if (m < 0.70710678118654752) m *= 2, --exponent;
  const double s = (m - 1) / (m + 1), square = s * s;
  double sum = 0;
  for (int odd = 21; odd > 1; odd -= 2) sum = (sum + 1.0 / odd) * square;
  return -(exponent * 0.69314718055994531 + 2 * s * (1 + sum)) / rate;
}

/// The error of a weight that is not valid.
[[noreturn]] void fail_weight(int64_t row, int64_t index, double weight);
[[noreturn]] void fail_few_weights(int64_t row, int64_t positive, int64_t count, bool replacement);
/// The number of weights above 0 that a row needs.
inline int64_t needed_weights(int64_t count, bool replacement) {
  return replacement && count > 1 ? 1 : count;
}

}  // namespace vitrine
