// The gradient of the softmax as a function of the scale, and the scale of a decoder.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "core/creation.h"
#include "core/random.h"
#include "examples/labs/attention_scale/sections.h"
#include "nn/attention/scale.h"

namespace vitrine::labs {

using namespace nn::report;

std::vector<double> sampled_objective(int64_t n, const std::vector<double>& alphas, int draws) {
  manual_seed(1);
  std::vector<double> means(alphas.size());
  for (int draw = 0; draw < draws; ++draw) {
    const std::vector<double> scores = randn({n}, DType::float64).values();
    for (size_t i = 0; i < alphas.size(); ++i) means[i] += nn::exact_objective(alphas[i], scores) / draws;
  }
  return means;
}

LineChart objective_chart() {
  LineChart chart{.title = "Half the L1 norm of the softmax's Jacobian, α(1 − Σp²)",
                  .x = {"α, the factor of normal scores"},
                  .y = {"α(1 − Σp²)", AxisScale::linear, 0, 3.5}};
  std::vector<double> alphas;
  for (int i = 1; i <= 80; ++i) alphas.push_back(0.1 * i);
  for (int64_t n : {64, 1024}) {
    const auto keys = static_cast<double>(n);
    const int color = n == 64 ? 0 : 1;
    Series approximation{fmt::format("approximation {}", n), {}, {}};
    for (double alpha : alphas) approximation.add(alpha, nn::normal_objective(alpha, keys));
    chart.lines.push_back({approximation, categorical_color(color), LineStyle::dashed});
    chart.lines.push_back(
        {{fmt::format("draws {}", n), alphas, sampled_objective(n, alphas)}, categorical_color(color)});
    const double optimum = nn::gradient_optimal_scale(keys);
    chart.marks.push_back({Mark::At::x, optimum, fmt::format("α*({})", n)});
  }
  return chart;
}

namespace {

std::string value_or_negative(double x) { return x < 0 ? "negative" : fmt::format("{:.3f}", x); }

TextTable objective_table(int64_t n) {
  const auto keys = static_cast<double>(n);
  const double optimum = nn::gradient_optimal_scale(keys);
  const std::vector<double> alphas = {0.1, 0.5, 1, optimum, 2.5, 4, 8, 16};
  const std::vector<double> means = sampled_objective(n, alphas);
  TextTable table{.title = fmt::format("α(1 − Σp²) for n = {} normal scores", n),
                  .columns = {"α", "approximation", fmt::format("mean of {} draws", kDraws)}};
  for (size_t i = 0; i < alphas.size(); ++i)
    table.rows.push_back({fmt::format("{:.3f}", alphas[i]),
                          value_or_negative(nn::normal_objective(alphas[i], keys)),
                          fmt::format("{:.3f}", means[i])});
  return table;
}

/// The gain over α = 1.
TextTable gain_table() {
  TextTable table{
      .title = "α(1 − Σp²) divided by its value at α = 1",
      .columns = {"n", "α*", "approximate, α*", "sampled, α*", "approximate, 2.5", "sampled, 2.5"}};
  for (int64_t n : {64, 256, 1024, 4096}) {
    const auto keys = static_cast<double>(n);
    const double optimum = nn::gradient_optimal_scale(keys), one = nn::normal_objective(1, keys);
    const std::vector<double> sampled = sampled_objective(n, {1, optimum, 2.5});
    table.rows.push_back({fmt::format("{}", n), fmt::format("{:.6f}", optimum),
                          fmt::format("{:.3f}", nn::normal_objective(optimum, keys) / one),
                          fmt::format("{:.3f}", sampled[1] / sampled[0]),
                          value_or_negative(nn::normal_objective(2.5, keys) / one),
                          fmt::format("{:.3f}", sampled[2] / sampled[0])});
  }
  return table;
}

/// Where each of the draws has its maximum, on a grid of α from 0.5 to 30.
struct Maxima {
  Histogram histogram;
  double median, at_the_end;
};

Maxima maxima_of_draws(int64_t n) {
  constexpr int kSteps = 60;
  constexpr double kWidth = 0.5;
  manual_seed(1);
  std::vector<double> best;
  for (int draw = 0; draw < kDraws; ++draw) {
    const std::vector<double> scores = randn({n}, DType::float64).values();
    double alpha_of_best = 0, largest = 0;
    for (int i = 1; i <= kSteps; ++i)
      if (const double y = nn::exact_objective(kWidth * i, scores); y > largest)
        largest = y, alpha_of_best = kWidth * i;
    best.push_back(alpha_of_best);
  }
  Histogram h{.title = fmt::format("The α of the largest gradient, draw by draw, n = {}", n),
              .x = {"α"},
              .y = {"draws"}};
  for (int i = 0; i <= kSteps; ++i) h.edges.push_back(kWidth * (i + 0.5));
  Histogram::Group group{.name = "draws", .heights = std::vector<double>(kSteps)};
  for (double alpha : best) ++group.heights[static_cast<size_t>(std::lround(alpha / kWidth)) - 1];
  h.groups.push_back(group);
  h.marks.push_back({Mark::At::x, nn::gradient_optimal_scale(static_cast<double>(n)), "α*"});
  std::sort(best.begin(), best.end());
  return {h, best[best.size() / 2], group.heights.back() / kDraws};
}

}  // namespace

Section objective_section() {
  const Maxima maxima = maxima_of_draws(1024);
  const TextTable gains = gain_table();
  const auto& row = gains.rows[2];  // n = 1024
  return {
      .title = "The gradient vanishes at both ends",
      .paragraphs =
          {{"Claim",
            "Half the L1 norm of ∂p/∂s is α(1 − Σp²). It vanishes for α → 0 and for α → ∞, so an α between "
            "maximizes it. For n normal scores the norm is about α(1 − e^(α²)/n)."},
           {"Seen",
            fmt::format(
                "Up to α* the approximation is good: for n = 1024 the gain over α = 1 is {} at α*, and the "
                "sampled gain {}. After α* the approximation falls and the mean of draws does not. Each draw has a "
                "maximum, with a median α of {:.1f}; {:.0f} % of the draws still grow at the end of the "
                "histogram.",
                row[2], row[3], maxima.median, 100 * maxima.at_the_end)},
           {"Verdict",
            fmt::format(
                "α* maximizes the approximation, not the gradient. A larger α than 1 helps, and the sampled "
                "gain at 2.5 is {} for n = 1024. α* is no value after which the gradient falls.",
                row[5])}},
      .figures = {
          {objective_chart(), "Dashed: the approximation. Solid: the mean of 200 draws of the scores."},
          {objective_table(1024), ""},
          {gains, "The approximation is negative where e^(α²) exceeds n."},
          {maxima.histogram, "The last bar also has the draws whose gradient still grows at α = 30."}}};
}

namespace {

/// The mean over positions of the gradients of a decoder, for an α of each number of keys.
template <class Alpha>
double mean_gradient(int64_t context, Alpha alpha_of) {
  double total = 0;
  int count = 0;
  for (int64_t n = context / 32; n <= context; n += context / 32) {
    total += sampled_objective(n, {alpha_of(static_cast<double>(n))}, 50)[0];
    ++count;
  }
  return total / count;
}

}  // namespace

Section decoder_section() {
  TextTable table{.title = "One α for all positions of a decoder, n = L/2",
                  .columns = {"L", "α*(L/2)", "α = 1", "α*(L/2) at all", "α*(n) at each"}};
  double worst = 0, of_one = 0;  // relative to α*(n)
  for (int64_t context : {512, 1024, 2048, 4096}) {
    const double constant = nn::gradient_optimal_scale(static_cast<double>(context) / 2);
    const double fixed = mean_gradient(context, [&](double) { return constant; });
    const double each = mean_gradient(context, [](double n) { return nn::gradient_optimal_scale(n); });
    const double one = mean_gradient(context, [](double) { return 1.0; });
    worst = std::max(worst, std::abs(fixed / each - 1)), of_one = std::max(of_one, one / each);
    table.rows.push_back({fmt::format("{}", context), fmt::format("{:.6f}", constant),
                          fmt::format("{:.3f}", one), fmt::format("{:.3f}", fixed),
                          fmt::format("{:.3f}", each)});
  }
  LineChart chart{.title = "The gradient of each position of a decoder, L = 1024",
                  .x = {"n, the keys that the position sees", AxisScale::log},
                  .y = {"α(1 − Σp²), mean of 50 draws"}};
  const double constant = nn::gradient_optimal_scale(512);
  Series one{"α = 1", {}, {}}, fixed{"α*(512)", {}, {}}, each{"α*(n)", {}, {}};
  for (int64_t n = 2; n <= 1024; n *= 2) {
    const auto keys = static_cast<double>(n);
    const auto y = sampled_objective(n, {1, constant, nn::gradient_optimal_scale(keys)}, 50);
    one.add(keys, y[0]), fixed.add(keys, y[1]), each.add(keys, y[2]);
  }
  chart.lines = {{one}, {fixed}, {each, {}, LineStyle::dashed}};
  return {
      .title = "The decoder's rule",
      .paragraphs =
          {{"Claim",
            "A query of a decoder sees as many keys as its position. α* changes slowly with n, so the constant "
            "α*(L/2) is good for most positions."},
           {"Seen",
            fmt::format(
                "The mean gradient over 32 positions with the constant differs from that with α*(n) by "
                "at most {:.1f} %. With α = 1 the mean is at most {:.0f} % of it.",
                100 * worst, 100 * of_one)},
           {"Verdict", "The rule holds. Only the first few positions see a clear difference."}},
      .figures = {{chart, "Few keys: the constant is above α*(n)."},
                  {table, "Mean of α(1 − Σp²) over 32 positions, 50 draws each."}}};
}

}  // namespace vitrine::labs
