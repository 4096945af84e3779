// The scales that maximize the approximated gradient, and their fits.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "core/creation.h"
#include "core/random.h"
#include "examples/labs/attention_scale/sections.h"
#include "nn/attention/scale.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"

namespace vitrine::labs {

using namespace nn::report;

std::vector<double> key_counts() {
  std::vector<double> counts;
  for (int i = 1; i <= 500; ++i) counts.push_back(40.0 * i);
  return counts;
}

double fitted_factor(const std::vector<double>& y, double (*f)(double)) {
  const std::vector<double> n = key_counts();
  double products = 0, squares = 0;
  for (size_t i = 0; i < n.size(); ++i) products += y[i] * f(n[i]), squares += f(n[i]) * f(n[i]);
  return products / squares;
}

namespace {

double log_of(double n) { return std::log(n); }
double root_log(double n) { return std::sqrt(std::log(n)); }

template <class F>
std::vector<double> at_counts(F f) {
  std::vector<double> y;
  for (double n : key_counts()) y.push_back(f(n));
  return y;
}

/// The error of a fit in per cent of the exact value.
struct FitError {
  Series series;
  double largest = 0, at = 0, largest_from_500 = 0;
};

FitError fit_error(const std::string& name, const std::vector<double>& exact, double factor,
                   double (*f)(double)) {
  FitError error{{name, {}, {}}};
  const std::vector<double> n = key_counts();
  for (size_t i = 0; i < n.size(); ++i) {
    const double e = 100 * (factor * f(n[i]) / exact[i] - 1);
    error.series.add(n[i], e);
    if (std::abs(e) > error.largest) error.largest = std::abs(e), error.at = n[i];
    if (n[i] >= 500) error.largest_from_500 = std::max(error.largest_from_500, std::abs(e));
  }
  return error;
}

/// The n whose optimal scale is α.
double keys_of(double alpha) { return (1 + 2 * alpha * alpha) * std::exp(alpha * alpha); }

/// The largest |W·e^W/(n√e/2) − 1| with W = α² + ½: zero if α = √(W₀(n√e/2) − ½).
double closed_form_error() {
  double worst = 0;
  for (double n : key_counts()) {
    const double alpha = nn::gradient_optimal_scale(n), w = alpha * alpha + 0.5;
    worst = std::max(worst, std::abs(w * std::exp(w) / (n * std::exp(0.5) / 2) - 1));
  }
  return worst;
}

std::vector<double> cosine_optima(double d) {
  return at_counts([d](double n) { return nn::gradient_optimal_cosine_scale(n, d); });
}

TextTable optimum_table() {
  TextTable table{.title = "The scale that maximizes the approximated gradient, and the fits of the source",
                  .columns = {"n", "α* normal", "0.84·√(ln n)", "α* cosine, D=128", "3.5·ln n"}};
  for (double n : {40.0, 64.0, 256.0, 1024.0, 4096.0, 20000.0})
    table.rows.push_back({fmt::format("{}", n), fmt::format("{:.4f}", nn::gradient_optimal_scale(n)),
                          fmt::format("{:.4f}", 0.84 * root_log(n)),
                          fmt::format("{:.2f}", nn::gradient_optimal_cosine_scale(n, 128)),
                          fmt::format("{:.2f}", 3.5 * log_of(n))});
  return table;
}

}  // namespace

Section normal_section() {
  const std::vector<double> n = key_counts();
  const std::vector<double> exact = at_counts([](double keys) { return nn::gradient_optimal_scale(keys); });
  const double best = fitted_factor(exact, root_log);
  const FitError given = fit_error("0.84·√(ln n)", exact, 0.84, root_log);
  const FitError fitted =
      fit_error(fmt::format("{:.3f}·√(ln n), least squares", best), exact, best, root_log);
  LineChart curves{.title = "α* for normal scores", .x = {"n", AxisScale::log}, .y = {"α"}};
  curves.lines = {
      {{"α*, exact", n, exact}},
      {{"0.84·√(ln n)", n, at_counts([](double k) { return 0.84 * root_log(k); })}, {}, LineStyle::dashed}};
  curves.marks = {{Mark::At::y, 2, ""}, {Mark::At::y, 2.5, ""}};
  LineChart errors{.title = "Error of the fits", .x = {"n", AxisScale::log}, .y = {"per cent of α*"}};
  errors.lines = {{given.series}, {fitted.series, {}, LineStyle::dashed}};
  const TextTable table{
      .title = "Normal scores, n from 40 to 20000",
      .columns = {"quantity", "value"},
      .rows = {{"largest error of 0.84·√(ln n), per cent", fmt::format("{:.1f}", given.largest)},
               {"its n", fmt::format("{}", given.at)},
               {"its largest error from n = 500 on, per cent", fmt::format("{:.1f}", given.largest_from_500)},
               {"factor by least squares", fmt::format("{:.4f}", best)},
               {"α* reaches 2 at n", fmt::format("{:.0f}", keys_of(2))},
               {"α* reaches 3 at n", fmt::format("{:.0f}", keys_of(3))},
               {"2.5 is optimal at n", fmt::format("{:.0f}", keys_of(2.5))},
               {"largest error of the closed form", fmt::format("{:.0e}", closed_form_error())}}};
  return {
      .title = "α* for normal scores",
      .paragraphs =
          {{"Claim",
            "There is no closed form. α* is about 0.84·√(ln n), between 2 and 3 in a fairly large range, so "
            "2.5/√D is a good scale."},
           {"Seen",
            fmt::format(
                "The derivative vanishes where (1 + 2α²)e^(α²) = n, so α* = √(W₀(n√e/2) − ½) with Lambert's W₀. "
                "The fit is {:.1f} % too large at n = {:.0f}, and within {:.1f} % from n = 500 on. α* is between "
                "2 and 3 for n from {:.0f} to {:.0f}.",
                given.largest, given.at, given.largest_from_500, keys_of(2), keys_of(3))},
           {"Verdict",
            fmt::format(
                "The fit is usable for many keys and poor for few. There is a closed form, and Newton's "
                "method solves it at once. 2.5 is exactly optimal at n = {:.0f}.",
                keys_of(2.5))}},
      .figures = {{curves, "The marks are 2 and 2.5."},
                  {errors, "Above 0 the fit is too large."},
                  {optimum_table(), ""},
                  {table, ""}}};
}

namespace {

/// Cosines of random directions in d dimensions, against their density.
struct Angles {
  Histogram::Group sampled, density;
  double mean_square, distance;
};

constexpr int64_t kPairs = 40000;
constexpr int kBins = 80;

double bin_edge(int i) { return -1 + 2.0 * i / kBins; }

/// The share of the density (1 − s²)^((d − 3)/2) up to each edge, by Simpson's rule.
std::vector<double> cumulative_density(double d) {
  const auto f = [d](double s) { return std::pow(std::max(1 - s * s, 0.0), (d - 3) / 2); };
  std::vector<double> below = {0};
  for (int i = 0; i < kBins; ++i) {
    double sum = 0;
    constexpr int kParts = 50;
    const double step = (bin_edge(i + 1) - bin_edge(i)) / kParts;
    for (int k = 0; k <= kParts; ++k)
      sum += (k == 0 || k == kParts ? 1 : k % 2 == 1 ? 4 : 2) * f(bin_edge(i) + k * step);
    below.push_back(below.back() + sum * step / 3);
  }
  for (double& share : below) share /= below.back();
  return below;
}

Angles angles(int64_t d, int color) {
  manual_seed(1);
  const Tensor a = randn({kPairs, d}), b = randn({kPairs, d});
  const std::vector<double> cosines = (sum(a * b, {1}) / (norm(a, 2, {1}) * norm(b, 2, {1}))).values();
  Angles result{.sampled = {.name = fmt::format("sampled, d = {}", d),
                            .color = categorical_color(color),
                            .heights = std::vector<double>(kBins)},
                .density = {.name = fmt::format("density, d = {}", d),
                            .color = categorical_color(color),
                            .style = LineStyle::dashed},
                .mean_square = 0,
                .distance = 0};
  for (double s : cosines) {
    const int bin = std::clamp(static_cast<int>((s + 1) / 2 * kBins), 0, kBins - 1);
    result.sampled.heights[static_cast<size_t>(bin)] += 1.0 / kPairs;
    result.mean_square += s * s / kPairs;
  }
  const std::vector<double> below = cumulative_density(static_cast<double>(d));
  double seen = 0;
  for (size_t i = 0; i < kBins; ++i) {
    result.density.heights.push_back(below[i + 1] - below[i]);
    seen += result.sampled.heights[i];
    result.distance = std::max(result.distance, std::abs(seen - below[i + 1]));
  }
  return result;
}

struct AngleFigures {
  Histogram histogram;
  TextTable table;
};

AngleFigures angle_figures() {
  AngleFigures figures{
      .histogram = {.title = "Cosines of 40,000 pairs of random directions",
                    .x = {"s, the cosine"},
                    .y = {"share of the pairs"}},
      .table = {.title = "Cosines against the density (1 − s²)^((d − 3)/2)",
                .columns = {"d", "mean of s²", "1/d", "distance of distributions", "5 % limit"}}};
  for (int i = 0; i <= kBins; ++i) figures.histogram.edges.push_back(bin_edge(i));
  int color = 0;
  for (int64_t d : {4, 16, 128}) {
    const Angles a = angles(d, color++);
    figures.histogram.groups.push_back(a.sampled);
    figures.histogram.groups.push_back(a.density);
    figures.table.rows.push_back({fmt::format("{}", d), fmt::format("{:.5f}", a.mean_square),
                                  fmt::format("{:.5f}", 1.0 / static_cast<double>(d)),
                                  fmt::format("{:.5f}", a.distance),
                                  fmt::format("{:.5f}", 1.358 / std::sqrt(kPairs))});
  }
  return figures;
}

struct CoefficientFigures {
  LineChart optima, coefficients;
  TextTable table;
};

/// α* of cosines in several dimensions, and the factors of ln n that fit it.
CoefficientFigures coefficients() {
  const std::vector<double> n = key_counts();
  CoefficientFigures figures{
      .optima = {.title = "α* for cosines", .x = {"n", AxisScale::log}, .y = {"α", AxisScale::log}},
      .coefficients = {.title = "The factor c of the fit c·ln n",
                       .x = {"d", AxisScale::log},
                       .y = {"c", AxisScale::log}},
      .table = {.title = "The factor of ln n by least squares, n from 40 to 20000",
                .columns = {"d", "factor", "largest error, per cent"}}};
  const double limit =
      fitted_factor(at_counts([](double k) { return nn::gradient_optimal_scale(k); }), log_of);
  Series exact{"least squares", {}, {}}, many{"√d times the factor of normal scores", {}, {}};
  for (double d : {8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0}) {
    const std::vector<double> optima = cosine_optima(d);
    const double factor = fitted_factor(optima, log_of);
    exact.add(d, factor), many.add(d, limit * std::sqrt(d));
    figures.table.rows.push_back({fmt::format("{}", d), fmt::format("{:.3f}", factor),
                                  fmt::format("{:.1f}", fit_error("", optima, factor, log_of).largest)});
    if (d == 16 || d == 128 || d == 512)
      figures.optima.lines.push_back({{fmt::format("α*, d = {}", d), n, optima}});
  }
  figures.optima.lines.push_back(
      {{"3.5·ln n", n, at_counts([](double k) { return 3.5 * log_of(k); })}, {}, LineStyle::dashed});
  figures.coefficients.lines = {{exact}, {many, {}, LineStyle::dashed}};
  return figures;
}

}  // namespace

Section cosine_section() {
  const AngleFigures angle = angle_figures();
  const CoefficientFigures fits = coefficients();
  const FitError error = fit_error("3.5·ln n", cosine_optima(128), 3.5, log_of);
  LineChart errors{
      .title = "Error of 3.5·ln n for d = 128", .x = {"n", AxisScale::log}, .y = {"per cent of α*"}};
  errors.lines = {{error.series}};
  const TextTable table{
      .title = "Cosines in 128 dimensions",
      .columns = {"quantity", "value"},
      .rows = {
          {"α* for n = 1000", fmt::format("{:.6f}", nn::gradient_optimal_cosine_scale(1000, 128))},
          {"α* for n = 1024", fmt::format("{:.6f}", nn::gradient_optimal_cosine_scale(1024, 128))},
          {"α* for n = 20000", fmt::format("{:.6f}", nn::gradient_optimal_cosine_scale(20000, 128))},
          {"largest error of 3.5·ln n, per cent", fmt::format("{:.1f}", error.largest)},
          {"its n", fmt::format("{}", error.at)},
          {"its largest error from n = 500 on, per cent", fmt::format("{:.1f}", error.largest_from_500)}}};
  return {
      .title = "α* for cosines",
      .paragraphs =
          {{"Claim",
            "The cosine of two random directions has the density (1 − s²)^((d − 3)/2). α* is about 3.5·ln n for "
            "d = 128, between 25 and 35. Another d changes the factor 3.5."},
           {"Seen",
            fmt::format(
                "Sampled cosines follow the density. 3.5·ln n is within {:.1f} % from n = 500 on, but {:.0f} "
                "% too small at n = {:.0f}. From d = 32 on the factor grows, towards √d times the factor of "
                "normal scores, since cosines become normal with variance 1/d.",
                error.largest_from_500, error.largest, error.at)},
           {"Verdict",
            "The claims hold for d = 128 and many keys. The factor is not a constant; the solver is exact for each n "
            "and d."}},
      .figures = {
          {angle.histogram, "Solid: sampled. Dashed: the density, integrated over each bar."},
          {angle.table,
           "The distance is that of Kolmogorov and Smirnov at the bars' edges. A true density stays below the limit in 95 % of the samples."},
          {fits.optima, "3.5·ln n is a fit of the line d = 128 alone."},
          {errors, "Below 0 the fit is too small."},
          {table, ""},
          {fits.coefficients, ""},
          {fits.table, ""}}};
}

}  // namespace vitrine::labs
