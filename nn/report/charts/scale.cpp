// The arithmetic of charts: ranges, ticks, downsampling, smoothing, colours.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/error.h"
#include "nn/report/charts/chart.h"
#include "nn/report/html.h"

namespace vitrine::nn::report {
namespace {

/// The limit of drawable values: larger ones could overflow in differences and ratios.
constexpr double largest_drawable = 1e150;

bool drawable(double value, AxisScale scale) {
  if (!(std::abs(value) < largest_drawable)) return false;
  return scale == AxisScale::linear || value > 1 / largest_drawable;
}

/// A step of 1, 2 or 5 times a power of ten. About `count` steps cover `range`.
double round_step(double range, int count) {
  const double raw = range / count;
  const double magnitude = std::pow(10, std::floor(std::log10(raw)));
  const double mantissa = raw / magnitude;
  const double rounded = mantissa < 1.5 ? 1 : mantissa < 3.5 ? 2 : mantissa < 7.5 ? 5 : 10;
  return rounded * magnitude;
}

/// The smallest distance between neighbouring ticks.
double tick_distance(const std::vector<double>& ticks) {
  double distance = ticks.size() < 2 ? std::abs(ticks.at(0)) : largest_drawable;
  for (size_t i = 1; i < ticks.size(); ++i) distance = std::min(distance, ticks[i] - ticks[i - 1]);
  return distance;
}

std::string power_label(double value) {
  const int exponent = static_cast<int>(std::floor(std::log10(value) + 1e-9));
  const double mantissa = value / std::pow(10, exponent);
  if (std::abs(mantissa - 1) < 1e-6) return power_of_ten(exponent);
  return fmt::format("{:.3g}×{}", mantissa, power_of_ten(exponent));
}

std::string signed_number(double value, int decimals) {
  if (value == 0) return "0";
  const std::string text = fmt::format("{:.{}f}", std::abs(value), decimals);
  const bool zero = text.find_first_not_of("0.") == std::string::npos;
  return (value < 0 && !zero ? "−" : "") + text;
}

std::string linear_tick_label(double value, double distance, double largest) {
  if (value == 0) return "0";
  if (largest < 1e-3 || largest >= 1e12) {
    const int exponent = static_cast<int>(std::floor(std::log10(largest) + 1e-9));
    return fmt::format("{:.4g}×{}", value / std::pow(10, exponent), power_of_ten(exponent));
  }
  static constexpr std::array<std::pair<double, const char*>, 3> units = {
      {{1e9, "G"}, {1e6, "M"}, {1e3, "k"}}};
  for (const auto& [unit, suffix] : units) {
    if (largest < 10 * unit) continue;
    const int decimals = std::clamp(static_cast<int>(std::ceil(-std::log10(distance / unit) - 1e-9)), 0, 6);
    return signed_number(value / unit, decimals) + suffix;
  }
  return signed_number(value, std::clamp(static_cast<int>(std::ceil(-std::log10(distance) - 1e-9)), 0, 9));
}

std::array<double, 3> mix(const std::array<double, 3>& a, const std::array<double, 3>& b, double t) {
  return {a[0] + t * (b[0] - a[0]), a[1] + t * (b[1] - a[1]), a[2] + t * (b[2] - a[2])};
}

/// The viridis colour map (Smith and van der Walt 2015) at t in [0, 1], interpolated between nine
/// of its colours.
std::string viridis(double t) {
  static constexpr std::array<std::array<double, 3>, 9> colors = {{{68, 1, 84},
                                                                   {71, 44, 122},
                                                                   {59, 81, 139},
                                                                   {44, 113, 142},
                                                                   {33, 144, 141},
                                                                   {39, 173, 129},
                                                                   {92, 200, 99},
                                                                   {170, 220, 50},
                                                                   {253, 231, 37}}};
  const double place = std::clamp(t, 0.0, 1.0) * (colors.size() - 1);
  const auto i = std::min(static_cast<size_t>(place), colors.size() - 2);
  const auto rgb = mix(colors[i], colors[i + 1], place - static_cast<double>(i));
  return fmt::format("#{:02x}{:02x}{:02x}", static_cast<int>(rgb[0]), static_cast<int>(rgb[1]),
                     static_cast<int>(rgb[2]));
}

constexpr int categories = 6;

}  // namespace

Color categorical_color(int index) {
  static const std::array<Color, categories> palette = {
      {{"#0072b2", "#56b4e9"},    // blue, sky blue
       {"#d55e00", "#e69f00"},    // vermillion, orange
       {"#009e73", "#2fc79b"},    // bluish green, lightened on dark
       {"#b0578d", "#cc79a7"},    // reddish purple, darkened on light
       {"#b37c00", "#f0e442"},    // orange, darkened on light; yellow
       {"#3d4450", "#d9dee6"}}};  // the palette's black, and its counterpart
  return palette[static_cast<size_t>(index % categories)];
}

LineStyle categorical_style(int index) {
  return index / categories % 2 == 0 ? LineStyle::solid : LineStyle::dashed;
}

Color ordered_color(int index, int count) {
  const double t = count < 2 ? 0 : static_cast<double>(index) / (count - 1);
  return {viridis(0.62 * t), viridis(0.38 + 0.62 * t)};
}

std::pair<double, double> drawable_range(const std::vector<double>& values, AxisScale scale) {
  double low = not_given, high = not_given;
  for (double value : values) {
    if (!drawable(value, scale)) continue;
    low = std::isnan(low) ? value : std::min(low, value);
    high = std::isnan(high) ? value : std::max(high, value);
  }
  return {low, high};
}

std::vector<size_t> downsample(const std::vector<double>& y, int max_points) {
  check(max_points >= 4, "downsample: max_points is {}, at least 4 is wanted", max_points);
  std::vector<size_t> kept;
  const size_t buckets = static_cast<size_t>(max_points) / 2;
  if (y.size() <= static_cast<size_t>(max_points)) {
    for (size_t i = 0; i < y.size(); ++i) kept.push_back(i);
    return kept;
  }
  kept.push_back(0);
  for (size_t bucket = 0; bucket < buckets; ++bucket) {
    const size_t begin = bucket * y.size() / buckets, end = (bucket + 1) * y.size() / buckets;
    size_t lowest = end, highest = end, gap = end;  // `end`: not found
    for (size_t i = begin; i < end; ++i) {
      if (!std::isfinite(y[i])) {
        if (gap == end) gap = i;
        continue;
      }
      if (lowest == end || y[i] < y[lowest]) lowest = i;
      if (highest == end || y[i] > y[highest]) highest = i;
    }
    std::array<size_t, 3> found = {lowest, highest, gap};
    std::sort(found.begin(), found.end());
    for (size_t i : found) {
      if (i != end && kept.back() != i) kept.push_back(i);
    }
  }
  if (kept.back() != y.size() - 1) kept.push_back(y.size() - 1);
  return kept;
}

std::vector<BandPoint> range_band(const Series& series, int count, AxisScale scale) {
  check(count > 0, "range_band: count is {}, wanted at least 1", count);
  const size_t n = series.y.size(), pieces = std::min(n, static_cast<size_t>(count));
  std::vector<BandPoint> band;
  for (size_t piece = 0; piece < pieces; ++piece) {
    const size_t begin = piece * n / pieces, end = (piece + 1) * n / pieces;
    const auto from = series.y.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto [low, high] =
        drawable_range({from, series.y.begin() + static_cast<std::ptrdiff_t>(end)}, scale);
    band.push_back({(series.x[begin] + series.x[end - 1]) / 2, low, high});
  }
  return band;
}

Series smooth(const Series& series, int radius, int points) {
  check(radius >= 0 && points > 0, "smooth: radius is {} and points is {}; not less than 0 and 1 are wanted",
        radius, points);
  check(series.x.size() == series.y.size(), "smooth: series '{}' has {} x and {} y values", series.name,
        series.x.size(), series.y.size());
  const size_t n = series.y.size(), stride = std::max<size_t>(1, n / static_cast<size_t>(points));
  Series out{series.name, {}, {}};
  for (size_t back = 0; back < n; back += stride) {
    const size_t i = n - 1 - back, reach = std::min(static_cast<size_t>(radius), i);
    double sum = 0, count = 0;
    for (size_t j = i - reach; j < std::min(i + reach + 1, n); ++j) {
      if (!std::isfinite(series.y[j])) continue;
      sum += series.y[j];
      ++count;
    }
    out.x.push_back(series.x[i]);
    out.y.push_back(std::isfinite(series.y[i]) ? sum / count : not_given);
  }
  std::reverse(out.x.begin(), out.x.end());
  std::reverse(out.y.begin(), out.y.end());
  return out;
}

std::vector<double> linear_ticks(double low, double high, int count, double least) {
  if (!(high > low)) return {low};
  const double step = std::max(round_step(high - low, count), least);
  // A tick on the border counts, regardless of rounding
  const double slack = 1e-9 * (high - low) / step;
  std::vector<double> ticks;
  const auto first = std::ceil(low / step - slack), last = std::floor(high / step + slack);
  // If the range is below the spacing of doubles, ticks would coincide. Then the only ticks are the
  // borders.
  if (!(first + 1 > first) || last - first > 4.0 * count) return {low, high};
  for (double k = first; k <= last; ++k) ticks.push_back(k * step);
  return ticks;
}

std::vector<double> log_ticks(double low, double high, int count) {
  const double slack = 1e-9;
  const int first = static_cast<int>(std::ceil(std::log10(low) - slack));
  const int last = static_cast<int>(std::floor(std::log10(high) + slack));
  std::vector<double> ticks;
  if (last - first >= 2) {
    const int stride = (last - first) / count + 1;
    for (int k = first; k <= last; ++k) {
      if (k % stride == 0) ticks.push_back(std::pow(10, k));
    }
    return ticks;
  }
  for (int k = first - 1; k <= last; ++k) {
    for (double mantissa : {1.0, 2.0, 5.0}) {
      const double tick = mantissa * std::pow(10, k);
      if (tick >= low * (1 - slack) && tick <= high * (1 + slack)) ticks.push_back(tick);
    }
  }
  return ticks.size() >= 2 ? ticks : linear_ticks(low, high, count);
}

std::vector<std::string> tick_labels(const std::vector<double>& ticks, AxisScale scale) {
  std::vector<std::string> labels;
  if (ticks.empty()) return labels;
  const double distance = tick_distance(ticks);
  const double largest = std::max(std::abs(ticks.front()), std::abs(ticks.back()));
  const bool log = scale == AxisScale::log && ticks.back() > 4 * ticks.front();
  const bool plain = ticks.front() > 0.99e-4 && ticks.back() < 1.01e4;
  for (double tick : ticks) {
    if (log) {
      labels.push_back(plain ? readable_number(tick, 1) : power_label(tick));
    } else {
      labels.push_back(largest == 0 ? "0" : linear_tick_label(tick, distance, largest));
    }
  }
  return labels;
}

}  // namespace vitrine::nn::report
