// Rounding and overflow of three forms of LASER.
#include <fmt/format.h>

#include <cmath>
#include <string>
#include <vector>

#include "core/creation.h"
#include "core/random.h"
#include "core/tape.h"
#include "examples/labs/laser/sections.h"
#include "ops/attention.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/view.h"

namespace vitrine::labs {

using namespace nn::report;

namespace {

Tensor causal_weights(const Tensor& q, const Tensor& k) {
  const Tensor hidden = equal(tril(ones({q.size(2), k.size(2)})), zeros({}));
  const Tensor scores = matmul(q, transpose(k)) / std::sqrt(static_cast<double>(q.size(3)));
  return softmax(where(hidden, full({}, -INFINITY, q.dtype()), scores));
}

}  // namespace

Tensor laser(LaserForm form, const Tensor& q, const Tensor& k, const Tensor& v) {
  if (form == LaserForm::direct) return log(matmul(causal_weights(q, k), exp(v)));
  if (form == LaserForm::published) {
    const Tensor m = max(detach(v), {-2}, KeepAxes::yes);
    return m + log(matmul(causal_weights(q, k), exp(v - m)));
  }
  AttentionOptions options;
  options.causal = true, options.read = AttentionRead::laser;
  return attention(q, k, v, options);
}

namespace {

struct Result {
  Tensor y, dq;
};

Result run_form(LaserForm form, const std::vector<Tensor>& x, DType dtype) {
  Tape tape;
  const Tensor q = tape.watch(cast(x[0], dtype)), k = cast(x[1], dtype), v = cast(x[2], dtype);
  const Tensor y = laser(form, q, k, v);
  return {y, tape.gradient({y}, {q}, {cast(x[3], dtype)})[0]};
}

/// q, k, v and a cotangent; v has this spread. All are exact in the dtype.
std::vector<Tensor> inputs(double values, DType dtype) {
  manual_seed(1);
  std::vector<Tensor> x;
  for (double spread : {1.0, 1.0, values, 1.0}) x.push_back(cast(randn({2, 4, 64, 32}) * spread, dtype));
  return x;
}

/// ‖x − right‖/‖right‖ in per cent; NaN where x is not finite.
double error_of(const Tensor& x, const Tensor& right) {
  const auto norm_of = [](const Tensor& y) { return sqrt(sum(square(y))).item(); };
  const double error = 100 * norm_of(cast(x, DType::float64) - right) / norm_of(right);
  return std::isfinite(error) ? error : not_given;
}

struct Errors {
  double y, dq;
};

Errors errors_of(LaserForm form, const std::vector<Tensor>& x, DType dtype) {
  const Result right = run_form(LaserForm::robust, x, DType::float64), result = run_form(form, x, dtype);
  return {error_of(result.y, right.y), error_of(result.dq, right.dq)};
}

std::string percent(double x) { return std::isnan(x) ? "not finite" : fmt::format("{:.2f} %", x); }

TextTable bfloat16_table() {
  TextTable table{
      .title = "bfloat16, causal, 64 keys: relative errors of the output o and of the gradient along q",
      .columns = {"spread of the values", "published: o", "dq", "Vitrine: o", "dq"}};
  for (double values : {0.01, 0.1, 1.0, 10.0}) {
    const auto x = inputs(values, DType::bfloat16);
    const Errors published = errors_of(LaserForm::published, x, DType::bfloat16),
                 robust = errors_of(LaserForm::robust, x, DType::bfloat16);
    table.rows.push_back({fmt::format("{}", values), percent(published.y), percent(published.dq),
                          percent(robust.y), percent(robust.dq)});
  }
  return table;
}

constexpr DType kDTypes[] = {DType::float32, DType::bfloat16, DType::float16};

struct Precision {
  LineChart y, dq;
  double worst_robust[3] = {}, worst_published[3] = {};
  int points = 0, lost_robust = 0, lost_published = 0;  ///< lost: outputs that are not finite
};

/// Errors against the spread of the values, for each dtype and both stable forms.
Precision precision() {
  const Axis spread = {"spread of the values", AxisScale::log},
             error = {"relative error, per cent", AxisScale::log};
  Precision p{.y = {.title = "Error of the output", .x = spread, .y = error},
              .dq = {.title = "Error of the gradient along q", .x = spread, .y = error}};
  for (int d = 0; d < 3; ++d)
    for (LaserForm form : {LaserForm::published, LaserForm::robust}) {
      const bool robust = form == LaserForm::robust;
      const std::string label = fmt::format("{}, {}", name(kDTypes[d]), robust ? "Vitrine" : "published");
      Series y{label, {}, {}}, dq{label, {}, {}};
      for (double e = -3; e <= 2.01; e += 0.25) {
        const double values = std::pow(10.0, e);
        const Errors errors = errors_of(form, inputs(values, kDTypes[d]), kDTypes[d]);
        y.add(values, errors.y), dq.add(values, errors.dq);
        p.points += robust;
        if (std::isnan(errors.y)) ++(robust ? p.lost_robust : p.lost_published);
        auto& worst = (robust ? p.worst_robust : p.worst_published)[d];
        worst = std::fmax(worst, errors.y);
      }
      const LineStyle style = robust ? LineStyle::solid : LineStyle::dashed;
      p.y.lines.push_back({y, categorical_color(d), style});
      p.dq.lines.push_back({dq, categorical_color(d), style});
    }
  return p;
}

}  // namespace

Section precision_section() {
  const Precision p = precision();
  TextTable worst{.title = "The largest error of the output over spreads from 0.001 to 100, in per cent",
                  .columns = {"dtype", "published", "Vitrine"}};
  const TextTable lost{
      .title = "Outputs over 21 spreads and 3 dtypes",
      .columns = {"quantity", "value"},
      .rows = {{"points", fmt::format("{}", p.points)},
               {"points where the published form is not finite", fmt::format("{}", p.lost_published)},
               {"points where the library's form is not finite", fmt::format("{}", p.lost_robust)}}};
  for (int d = 0; d < 3; ++d)
    worst.rows.push_back({std::string(name(kDTypes[d])), fmt::format("{:.3g}", p.worst_published[d]),
                          fmt::format("{:.3g}", p.worst_robust[d])});
  return {
      .title = "Rounding",
      .paragraphs =
          {{"Claim", "Subtracting the largest value of each channel makes the form stable."},
           {"Seen",
            fmt::format(
                "For small values a·e^(v − m) is close to 1, and its logarithm keeps few digits. For large values "
                "a future maximum makes earlier rows log 0. Of {} points the published form is not finite at {}, the "
                "library's form at {}. The largest error of bfloat16 is {:.3g} % published, and {:.3g} % here.",
                p.points, p.lost_published, p.lost_robust, p.worst_published[1], p.worst_robust[1])},
           {"Verdict",
            "The shift prevents overflow and nothing else. An anchor from the range of the visible values, with expm1 and "
            "log1p, has the error of the dtype at every spread."}},
      .figures = {
          {p.y,
           "Dashed: the published form. Solid: the library's. A line ends where results are not finite."},
          {p.dq, ""},
          {bfloat16_table(), ""},
          {worst, "Points that are not finite do not count."},
          {lost, ""}}};
}

namespace {

struct Collapse {
  LineChart chart{.title = "Outputs of log(a·e^v) that are not finite",
                  .x = {"spread of the values", AxisScale::log},
                  .y = {"share", AxisScale::linear, 0, 1}};
  TextTable table{
      .title = "log(a·e^v) without the shift",
      .columns = {"dtype", "ln of its largest number", "first spread with a loss", "lost at spread 100"}};
};

Collapse collapse() {
  Collapse c;
  for (DType dtype : kDTypes) {
    Series line{std::string(name(dtype)), {}, {}};
    double first = not_given;
    for (double e = -1; e <= 2.01; e += 0.125) {
      const double values = std::pow(10.0, e);
      const auto x = inputs(values, dtype);
      const Tensor y = laser(LaserForm::direct, x[0], x[1], x[2]);
      const double lost = 1 - mean(cast(is_finite(y), DType::float64)).item();
      line.add(values, lost);
      if (lost > 0 && std::isnan(first)) first = values;
    }
    const double largest = dtype == DType::float16    ? 65504.0
                           : dtype == DType::bfloat16 ? 3.3895e38
                                                      : 3.4028e38;
    c.table.rows.push_back({line.name, fmt::format("{:.2f}", std::log(largest)), fmt::format("{:.2f}", first),
                            fmt::format("{:.2f}", line.y.back())});
    c.chart.lines.push_back({line});
  }
  return c;
}

TextTable future_table() {
  TextTable table{.title = "Causal, float32: the first query sees only the value 0; the next value is X",
                  .columns = {"X", "published: o of query 0", "Vitrine: o of query 0"}};
  for (double future : {1.0, 50.0, 200.0}) {
    const Tensor q = ones({1, 1, 2, 1}), k = ones({1, 1, 2, 1}), v = tensor({0, future}, {1, 1, 2, 1});
    table.rows.push_back({fmt::format("{}", future),
                          fmt::format("{:.3g}", laser(LaserForm::published, q, k, v).values()[0] + 0.0),
                          fmt::format("{:.3g}", laser(LaserForm::robust, q, k, v).values()[0] + 0.0)});
  }
  return table;
}

}  // namespace

Section trick_section() {
  const Collapse c = collapse();
  return {
      .title = "Without the shift",
      .paragraphs =
          {{"Claim", "Without the log-weighted-sum-exp trick, training a large model collapses."},
           {"Seen",
            fmt::format(
                "e^v overflows where v exceeds the logarithm of the largest number of the dtype. The first loss is at a "
                "spread of {} in float32 and of {} in float16. With the trick, a future value can still "
                "destroy an earlier row.",
                c.table.rows[0][2], c.table.rows[2][2])},
           {"Verdict", "The trick is necessary, and it is not sufficient under a causal mask."}},
      .figures = {
          {c.chart,
           "One value that overflows costs its channel in every row: in rows that do not see it, 0·∞ is NaN."},
          {c.table, ""},
          {future_table(), "−inf is a lost row: the maximum is over keys that the query must not see."}}};
}

}  // namespace vitrine::labs
