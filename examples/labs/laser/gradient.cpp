// The gradient of LASER along the scores: two keys, bounds for many keys, random data.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/creation.h"
#include "core/random.h"
#include "core/tape.h"
#include "examples/labs/laser/sections.h"
#include "ops/attention.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace vitrine::labs {
namespace {

using namespace nn::report;

constexpr AttentionRead kReads[] = {AttentionRead::mean, AttentionRead::laser};

double norm_of(const Tensor& x) { return sqrt(sum(square(cast(x, DType::float64)))).item(); }

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

/// ∂o/∂s₁ of attention over two keys with the scores (difference, 0) and the values (gap, 0), by
/// the backward of the library.
double two_keys(AttentionRead read, double difference, double gap) {
  AttentionOptions options;
  options.scale = 1, options.read = read;
  const Tensor q = tensor({1}, {1, 1, 1, 1}, DType::float64);
  const Tensor v = tensor({gap, 0}, {1, 1, 2, 1}, DType::float64);
  Tape tape;
  const Tensor k = tape.watch(tensor({difference, 0}, {1, 1, 2, 1}, DType::float64));
  return tape.gradient(attention(q, k, v, options), {k})[0].values()[0];
}

/// LASER's gradient is larger where σ(Δs) is below this, for Δv > 0.
double threshold(double gap) { return 1 / gap - 1 / std::expm1(gap); }

TextTable two_keys_table() {
  const std::vector<double> gaps = {0.1, 1, 10};
  TextTable table{.title = "Two keys: the size of ∂o/∂s", .columns = {"Δs"}};
  for (double gap : gaps)
    for (const char* name : {"standard", "LASER"})
      table.columns.push_back(fmt::format("{}, Δv = {}", name, gap));
  for (double difference : {-8, -4, -2, 0, 2, 4, 8}) {
    table.rows.push_back({fmt::format("{}", difference)});
    for (double gap : gaps)
      for (AttentionRead read : kReads)
        table.rows.back().push_back(fmt::format("{:.2e}", two_keys(read, difference, gap)));
  }
  return table;
}

/// LASER's gradient divided by the standard one, and how often the condition σ(Δs) < threshold
/// agrees with it.
struct Ratios {
  HeatTable table{.title = "LASER's ∂o/∂s divided by the standard one",
                  .row_title = "Δv",
                  .column_title = "Δs",
                  .scale = AxisScale::log};
  int cells = 0, larger = 0, disagree = 0;
};

Ratios ratios() {
  Ratios r;
  std::vector<double> differences;
  for (int s = -10; s <= 10; s += 2) differences.push_back(s);
  for (double s : differences) r.table.columns.push_back(fmt::format("{}", s));
  for (double gap : {0.1, 0.5, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0}) {
    r.table.rows.push_back(fmt::format("{}", gap));
    for (double s : differences) {
      const double ratio = two_keys(AttentionRead::laser, s, gap) / two_keys(AttentionRead::mean, s, gap);
      r.table.values.push_back(ratio);
      ++r.cells, r.larger += ratio > 1, r.disagree += (ratio > 1) != (sigmoid_of(s) < threshold(gap));
    }
  }
  return r;
}

/// Δs at which both gradients are equal: below it LASER's is larger.
LineChart region_chart() {
  Series boundary{"equal gradients", {}, {}}, rough{"−ln Δv", {}, {}};
  for (double gap = 0.25; gap <= 20; gap += 0.25) {
    const double share = threshold(gap);
    boundary.add(gap, std::log(share / (1 - share)));
    if (gap >= 2) rough.add(gap, -std::log(gap));
  }
  return {.title = "Where the two gradients are equal",
          .x = {"Δv, the larger value minus the other"},
          .y = {"Δs, the score of the larger value minus the other"},
          .lines = {{boundary}, {rough, {}, LineStyle::dashed}}};
}

/// LASER's gradient against its limit 1 − σ(Δs) for a large Δv.
LineChart limit_chart() {
  LineChart chart{.title = "LASER's ∂o/∂s and its limit 1 − α₁", .x = {"Δv"}, .y = {"∂o/∂s"}};
  for (double difference : {-4, -2, 0, 2}) {
    Series line{fmt::format("Δs = {}", difference), {}, {}};
    for (double gap = 0.25; gap <= 16; gap += 0.25)
      line.add(gap, two_keys(AttentionRead::laser, difference, gap));
    chart.lines.push_back({line});
    chart.marks.push_back({Mark::At::y, 1 - sigmoid_of(difference), ""});
  }
  return chart;
}

TextTable limit_table() {
  TextTable table{.title = "The limit 1 − α₁ minus LASER's ∂o/∂s₁",
                  .columns = {"Δs", "limit", "Δv = 5", "Δv = 10", "Δv = 20"}};
  for (double difference : {-8, -4, 0, 4}) {
    const double limit = 1 - sigmoid_of(difference);
    table.rows.push_back({fmt::format("{}", difference), fmt::format("{:.4f}", limit)});
    for (double gap : {5.0, 10.0, 20.0})
      table.rows.back().push_back(
          fmt::format("{:.1e}", limit - two_keys(AttentionRead::laser, difference, gap)));
  }
  return table;
}

}  // namespace

LineChart two_keys_chart() {
  LineChart chart{.title = "The size of ∂o/∂s of two keys",
                  .x = {"Δs, the difference of the scores"},
                  .y = {"∂o/∂s", AxisScale::log}};
  for (double gap : {1.0, 10.0})
    for (AttentionRead read : kReads) {
      const bool is_laser = read == AttentionRead::laser;
      Series line{fmt::format("{} gap {}", is_laser ? "laser" : "standard", gap), {}, {}};
      for (double difference = -12; difference <= 12; difference += 0.25)
        line.add(difference, two_keys(read, difference, gap));
      chart.lines.push_back(
          {line, categorical_color(is_laser ? 1 : 0), gap > 1 ? LineStyle::solid : LineStyle::dashed});
    }
  return chart;
}

Section two_keys_section() {
  const Ratios r = ratios();
  const double far_standard = two_keys(AttentionRead::mean, -4, 10),
               far = two_keys(AttentionRead::laser, -4, 10);
  const double near_standard = two_keys(AttentionRead::mean, 4, 10),
               near = two_keys(AttentionRead::laser, 4, 10);
  const TextTable counts{.title = "Two keys: the condition σ(Δs) < 1/Δv − 1/(e^Δv − 1)",
                         .columns = {"quantity", "count"},
                         .rows = {{"cells", fmt::format("{}", r.cells)},
                                  {"cells where LASER's gradient is larger", fmt::format("{}", r.larger)},
                                  {"cells that disagree with the condition", fmt::format("{}", r.disagree)}}};
  return {
      .title = "Two keys",
      .paragraphs =
          {{"Claim",
            "Standard attention has ∂o/∂s = Δv·α₁(1 − α₁), which vanishes where the softmax is saturated. LASER has 1 "
            "− α₁ in the limit of a large Δv. So LASER's gradient is larger."},
           {"Seen",
            fmt::format(
                "At Δv = 10, Δs = −4 gives {:.3f} against {:.3f}, and Δs = 4 gives {:.3f} against {:.3f}. LASER's gradient "
                "is larger in {} of {} cells. The condition σ(Δs) < 1/Δv − 1/(e^Δv − 1) disagrees with the "
                "measured gradients in {} cells.",
                far, far_standard, near, near_standard, r.larger, r.cells, r.disagree)},
           {"Verdict",
            "The limit is right, and the conclusion is not true in general. LASER's gradient is larger exactly where "
            "the query ignores the key with the larger value. It is smaller where the query already prefers it."}},
      .figures = {
          {two_keys_chart(), "Dashed: Δv = 1. Solid: Δv = 10. LASER saturates on the right side alone."},
          {two_keys_table(), ""},
          {r.table, "Above 1 LASER's gradient is larger, below 1 it is smaller."},
          {region_chart(),
           "LASER's gradient is larger below the line. For large Δv the line is close to −ln Δv."},
          {limit_chart(), "The dotted marks are 1 − σ(Δs)."},
          {limit_table(), "Never negative: the limit is a bound."},
          {counts, ""}}};
}

namespace {

/// The gradients of one query along its scores, of shape [n].
std::vector<double> score_gradient(AttentionRead read, const Tensor& scores, const Tensor& values) {
  const int64_t n = scores.numel();
  AttentionOptions options;
  options.scale = 1, options.read = read;
  Tape tape;
  const Tensor k = tape.watch(reshape(scores, {1, 1, n, 1}));
  const Tensor o = attention(ones({1, 1, 1, 1}, DType::float64), k, reshape(values, {1, 1, n, 1}), options);
  return tape.gradient(o, {k})[0].values();
}

/// Bounds of |∂o/∂s_j| for a key of weight a among values of range r.
double standard_bound(double a, double r) { return a * (1 - a) * r; }
double laser_bound(double a, double r) {
  const double e = std::expm1(r), f = -std::expm1(-r);
  return a * (1 - a) * std::max(e / (1 + a * e), f / (1 - a * f));
}

struct Bounds {
  LineChart chart;
  int keys = 0, above = 0, opposite = 0;
  double largest_share = 0;  ///< of LASER's bound
};

constexpr int kBins = 40;  // of log₁₀ a, from −4 to 0

/// The sampled sizes that come nearest to their bound, by the weight of the key.
struct NearestToBound {
  struct Size {
    double a = 0, size = 0, limit = 1;
  };
  std::vector<Size> sizes = std::vector<Size>(kBins);
  void add(const Size& x) {
    const double place = (std::log10(x.a) + 4) / 4 * kBins;
    if (place < 0 || place >= kBins - 1) return;  // at a = 1 both bounds are 0
    Size& nearest = sizes[static_cast<size_t>(place)];
    if (x.size / x.limit > nearest.size / nearest.limit) nearest = x;
  }
  Series series(const std::string& name) const {
    Series s{name, {}, {}};
    for (const Size& x : sizes)
      if (x.size > 0) s.add(x.a, x.size);
    return s;
  }
};

/// Random rows of 2 to 6 keys: each gradient next to its bound.
Bounds bounds(double range) {
  Bounds b{.chart = {.title = fmt::format("Bounds of |∂o/∂s| for values with a range of {}", range),
                     .x = {"a, the weight of the key", AxisScale::log, 1e-4, 1},
                     .y = {"|∂o/∂s|", AxisScale::log}}};
  NearestToBound sampled[2];
  manual_seed(1);
  for (int draw = 0; draw < 1000; ++draw) {
    const int64_t n = 2 + draw % 5;
    const Tensor scores = randn({n}, DType::float64) * 3;
    Tensor v = rand({n}, DType::float64);
    v = (v - min(v)) / (max(v) - min(v)) * range;
    const std::vector<double> s = scores.values();
    double total = 0;
    for (double x : s) total += std::exp(x);
    const std::vector<double> g[2] = {score_gradient(AttentionRead::mean, scores, v),
                                      score_gradient(AttentionRead::laser, scores, v)};
    for (size_t j = 0; j < s.size(); ++j) {
      const double a = std::exp(s[j]) / total;
      const double limits[] = {standard_bound(a, range), laser_bound(a, range)};
      ++b.keys, b.opposite += g[0][j] * g[1][j] < 0;
      for (int i = 0; i < 2; ++i) {
        sampled[i].add({a, std::abs(g[i][j]), limits[i]});
        b.above += std::abs(g[i][j]) > limits[i] * (1 + 1e-9) + 1e-15;
      }
      b.largest_share = std::max(b.largest_share, std::abs(g[1][j]) / limits[1]);
    }
  }
  Series lines[2] = {{"standard, bound", {}, {}}, {"LASER, bound", {}, {}}};
  for (double e = -4; e < -0.001; e += 0.02) {
    const double a = std::pow(10.0, e);
    lines[0].add(a, standard_bound(a, range)), lines[1].add(a, laser_bound(a, range));
  }
  for (int i = 0; i < 2; ++i) {
    b.chart.lines.push_back({lines[i], categorical_color(i)});
    b.chart.lines.push_back({sampled[i].series(i == 0 ? "standard, seen" : "LASER, seen"),
                             categorical_color(i), LineStyle::dots});
  }
  return b;
}

/// The norm of the gradient with respect to q, for random queries, keys, values and cotangents.
double query_gradient(AttentionRead read, double scores, double values) {
  manual_seed(1);
  AttentionOptions options;
  options.causal = true, options.read = read, options.scale = scores / 8;  // 8 = √D
  Tape tape;
  const Tensor q = tape.watch(randn({4, 4, 256, 64})), k = randn({4, 4, 256, 64});
  const Tensor v = randn({4, 4, 256, 64}) * values, dy = randn({4, 4, 256, 64});
  return norm_of(tape.gradient({attention(q, k, v, options)}, {q}, {dy})[0]);
}

TextTable random_table() {
  TextTable table{.title =
                      "Random q, k, v and cotangents, causal, 256 keys: LASER's gradient along q, divided by "
                      "the standard one",
                  .columns = {"spread of the values", "scores 1", "scores 3", "scores 10"}};
  for (double values : {0.01, 0.1, 1.0, 3.0, 10.0}) {
    table.rows.push_back({fmt::format("{}", values)});
    for (double scores : {1.0, 3.0, 10.0})
      table.rows.back().push_back(
          fmt::format("{:.2f}", query_gradient(AttentionRead::laser, scores, values) /
                                    query_gradient(AttentionRead::mean, scores, values)));
  }
  return table;
}

}  // namespace

Section bounds_section() {
  const Bounds small = bounds(1), large = bounds(10);
  const int keys = small.keys + large.keys, above = small.above + large.above,
            opposite = small.opposite + large.opposite;
  const double share = 100 * std::max(small.largest_share, large.largest_share);
  const TextTable counts{.title = "Bounds of gradients, over random rows of 2 to 6 keys",
                         .columns = {"quantity", "value"},
                         .rows = {{"gradients", fmt::format("{}", 2 * keys)},
                                  {"gradients above their bound", fmt::format("{}", above)},
                                  {"largest share of LASER's bound, per cent", fmt::format("{:.1f}", share)},
                                  {"keys with opposite signs", fmt::format("{}", opposite)}}};
  return {
      .title = "Any number of keys",
      .paragraphs =
          {{"Claim",
            "The paper has the limit for two keys; a tighter bound for the general case is lacking."},
           {"Seen",
            fmt::format(
                "With b = a·e^(v − o), which sums to 1 over the keys, LASER's ∂o/∂s is b − a. So it is between −a and "
                "1 − a. For values of range R the largest size is a(1 − a)·max(E/(1 + aE), F/(1 − aF)) with E = e^R − 1 "
                "and F = 1 − e^(−R); standard attention has a(1 − a)R. Of {} sampled gradients {} exceed their bound, and "
                "the largest reaches {:.1f} % of LASER's bound. In {} of {} keys the two gradients "
                "have opposite signs.",
                2 * keys, above, share, opposite, keys)},
           {"Verdict",
            "The two-key case is the extreme one for the size. A bound of the ratio of the two gradients does not "
            "exist from three keys on, because either can be 0 where the other is not. On random data the "
            "gradients agree for small values, and LASER's is smaller for large ones."}},
      .figures = {
          {small.chart,
           "Lines: bounds. Dots: in each tenth of a decade the gradient nearest to its bound, of 1000 random rows of 2 to 6 keys."},
          {large.chart, "At a = 0.001, LASER's bound is far above the standard one."},
          {counts, ""},
          {random_table(), "Columns: the standard deviation of the scores."}}};
}

}  // namespace vitrine::labs
