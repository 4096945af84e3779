// LASER as a smooth maximum, and the shares of tiny weights.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/creation.h"
#include "core/random.h"
#include "examples/labs/laser/sections.h"
#include "ops/attention.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/view.h"

namespace vitrine::labs {
namespace {

using namespace nn::report;

/// The output of one query for these scores and values, both [n].
double read_out(AttentionRead read, const Tensor& scores, const Tensor& values) {
  const int64_t n = scores.numel();
  AttentionOptions options;
  options.scale = 1, options.read = read;
  return attention(ones({1, 1, 1, 1}, DType::float64), reshape(scores, {1, 1, n, 1}),
                   reshape(values, {1, 1, n, 1}), options)
      .item();
}

constexpr int kRows = 100;

TextTable log_sum_exp_table() {
  TextTable table{.title = "LSE − max over 100 draws of n normal values",
                  .columns = {"n", "smallest", "largest", "equal values", "ln n"}};
  for (int64_t n : {2, 16, 128, 1024}) {
    manual_seed(1);
    const Tensor x = randn({kRows, n}, DType::float64);
    const Tensor above = log_sum_exp(x) - max(x, {-1});
    table.rows.push_back({fmt::format("{}", n), fmt::format("{:.4f}", min(above).item()),
                          fmt::format("{:.4f}", max(above).item()),
                          fmt::format("{:.4f}", log_sum_exp(zeros({n}, DType::float64)).item()),
                          fmt::format("{:.4f}", std::log(static_cast<double>(n)))});
  }
  return table;
}

/// How LASER's output, relative to the range of the values, goes from the mean to the maximum.
struct Approach {
  LineChart chart;
  int outputs = 0, outside = 0;
};

Approach approach() {
  Approach a{.chart = {.title = "LASER of c·v, divided by c, for one query of 16 keys",
                       .x = {"c", AxisScale::log},
                       .y = {"output / c"}}};
  manual_seed(3);
  const Tensor scores = randn({16}, DType::float64), values = randn({16}, DType::float64);
  const Tensor log_weights = log_softmax(scores);
  const double mean_read = read_out(AttentionRead::mean, scores, values), highest = max(values).item();
  Series line{"LASER", {}, {}}, lower{"lower bound max(v + ln(a)/c)", {}, {}};
  for (int tenth = -20; tenth <= 30; ++tenth) {
    const double c = std::pow(10.0, 0.1 * tenth), y = read_out(AttentionRead::laser, scores, values * c) / c;
    const double low = max(values + log_weights / c).item();
    line.add(c, y);
    if (c >= 0.3) lower.add(c, low);
    ++a.outputs, a.outside += y < std::max(low, mean_read) - 1e-12 || y > highest + 1e-12;
  }
  a.chart.lines = {{line}, {lower, {}, LineStyle::dashed}};
  a.chart.marks = {{Mark::At::y, highest, "max v"}, {Mark::At::y, mean_read, "standard attention"}};
  return a;
}

}  // namespace

Section maximum_section() {
  const Approach a = approach();
  const auto& y = a.chart.lines[0].series.y;
  const TextTable counts{.title = "LASER between its bounds, one query of 16 keys",
                         .columns = {"quantity", "value"},
                         .rows = {{"outputs", fmt::format("{}", a.outputs)},
                                  {"outputs outside their bounds", fmt::format("{}", a.outside)}}};
  return {
      .title = "A smooth maximum",
      .paragraphs =
          {{"Claim", "max ≤ LSE ≤ max + ln n, so LASER is a differentiable maximum of the values."},
           {"Seen",
            fmt::format(
                "The inequality holds, and equal values reach its upper end. LASER has weights: its output is between "
                "max(v + ln a) and max v, and never below standard attention. {} of {} outputs are outside. "
                "For c from 0.01 to 1000 the output moves from {:.3f} to {:.3f}.",
                a.outside, a.outputs, y.front(), y.back())},
           {"Verdict",
            "LASER is a maximum only where values differ by much more than −ln a. For small values it is standard "
            "attention. The maximum is over visible keys with a weight, so ln n is replaced by −ln a, which can be larger."}},
      .figures = {{a.chart, "From standard attention on the left to the maximum on the right."},
                  {counts, ""},
                  {log_sum_exp_table(), ""}}};
}

namespace {

struct Shares {
  double below_1e3, below_1e7;
};

/// Of the weights of 16 rows of n normal scores.
Shares shares(int64_t n, double spread) {
  manual_seed(1);
  const Tensor p = softmax(randn({16, n}) * spread);
  const auto below = [&](double limit) {
    return mean(cast(less(p, full({}, limit)), DType::float64)).item();
  };
  return {below(1e-3), below(1e-7)};
}

}  // namespace

Section weights_section() {
  constexpr double kClaimed3 = 0.8, kClaimed7 = 0.2;  // the paper's shares
  LineChart chart{.title = "Shares of the weights below 10⁻³ and 10⁻⁷, normal scores",
                  .x = {"standard deviation of the scores"},
                  .y = {"share", AxisScale::linear, 0, 1}};
  TextTable table{.title = "The spread of normal scores whose share below 10⁻⁷ is nearest to 20 %",
                  .columns = {"n", "spread", "below 1e-3", "below 1e-7"}};
  for (int64_t n : {64, 256, 1024, 2048}) {
    Series three{fmt::format("below 10⁻³, n = {}", n), {}, {}},
        seven{fmt::format("below 10⁻⁷, n = {}", n), {}, {}};
    double best = 1, at = 0;
    Shares nearest{};
    for (double spread = 0.25; spread <= 10; spread += 0.25) {
      const Shares s = shares(n, spread);
      three.add(spread, s.below_1e3), seven.add(spread, s.below_1e7);
      if (const double distance = std::abs(s.below_1e7 - kClaimed7); distance < best)
        best = distance, at = spread, nearest = s;
    }
    const int color = static_cast<int>(table.rows.size());
    chart.lines.push_back({three, categorical_color(color)});
    chart.lines.push_back({seven, categorical_color(color), LineStyle::dashed});
    table.rows.push_back({fmt::format("{}", n), fmt::format("{}", at),
                          fmt::format("{:.2f}", nearest.below_1e3),
                          fmt::format("{:.2f}", nearest.below_1e7)});
  }
  chart.marks = {{Mark::At::y, kClaimed3, "claim: below 10⁻³"},
                 {Mark::At::y, kClaimed7, "claim: below 10⁻⁷"}};
  const Shares initial = shares(1024, 1);
  return {
      .title = "Tiny weights",
      .paragraphs =
          {{"Claim",
            "In a large model about 80 % of the attention weights are below 10⁻³ and 20 % below 10⁻⁷, so the "
            "gradient through the softmax is tiny."},
           {"Seen",
            fmt::format(
                "With n = 1024 and scores of variance 1, {:.0f} % are below 10⁻³ and {:.0f} % below 10⁻⁷. The first "
                "share is high in any long row, since the mean weight is 1/n. The second share requires scores with a "
                "spread of {} for 1024 keys and {} for 64 keys; {:.0f} % and {:.0f} % are then below 10⁻³.",
                100 * initial.below_1e3, 100 * initial.below_1e7, table.rows[2][1], table.rows[0][1],
                100 * std::stod(table.rows[2][2]), 100 * std::stod(table.rows[0][2]))},
           {"Verdict",
            "Normal scores of one spread do not have both shares at once for long rows: with 20 % below 10⁻⁷, more than "
            "80 % are below 10⁻³. Rows of different lengths and heads of different spreads can have both. No large model was trained "
            "here. A tiny weight is not a loss by itself: its key has no part in the output either."}},
      .figures = {{chart, "Solid: below 10⁻³. Dashed: below 10⁻⁷."}, {table, ""}}};
}

}  // namespace vitrine::labs
