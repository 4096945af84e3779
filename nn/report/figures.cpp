// Figures and texts that the section of a run and the comparison both use.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "nn/report/charts/frame.h"
#include "nn/report/html.h"
#include "nn/report/parts.h"

namespace vitrine::nn::report {
namespace {

using Range = std::pair<double, double>;

/// Extends `range` to include the drawable values of `values`.
void include(Range& range, const std::vector<double>& values, AxisScale scale) {
  const Range more = drawable_range(values, scale);
  if (std::isnan(more.first)) return;
  if (std::isnan(range.first)) {
    range = more;
    return;
  }
  range = {std::min(range.first, more.first), std::max(range.second, more.second)};
}

}  // namespace

SharedRanges shared_ranges(const std::vector<RunRecord>& runs) {
  const Range none = {not_given, not_given};
  SharedRanges ranges{none, none, none, none, none};
  for (const RunRecord& run : runs) {
    include(ranges.learning_rate, run.learning_rate.y, AxisScale::linear);
    include(ranges.speed, run.speed.y, AxisScale::linear);
    for (const Series& layer : run.grad_norm_by_layer)
      include(ranges.layer_gradients, layer.y, AxisScale::log);
    for (const PathGradients& layer : run.grad_norm_by_path) {
      for (const Series* path : {&layer.q, &layer.k, &layer.v})
        include(ranges.path_gradients, path->y, AxisScale::log);
    }
    for (const HeadStatistics& head : run.heads) {
      include(ranges.head_gradients, {head.grad_norm_q, head.grad_norm_k, head.grad_norm_v}, AxisScale::log);
      if (std::isfinite(head.jacobian)) ranges.jacobian_high = std::fmax(ranges.jacobian_high, head.jacobian);
    }
  }
  ranges.learning_rate = with_margin(ranges.learning_rate, AxisScale::linear);
  ranges.speed = with_margin(ranges.speed, AxisScale::linear);
  ranges.layer_gradients = with_margin(ranges.layer_gradients, AxisScale::log);
  ranges.path_gradients = with_margin(ranges.path_gradients, AxisScale::log);
  return ranges;
}

std::string card(const std::string& heading, const std::string& content, const std::string& explanation,
                 const std::string& css_class) {
  std::string html = fmt::format("<section class=\"card {}\">", css_class);
  if (!heading.empty()) html += fmt::format("<h3>{}</h3>", escape_html(heading));
  if (!explanation.empty()) html += fmt::format("<p class=\"why\">{}</p>", explanation);
  return html + content + "</section>\n";
}

std::string sample_text(const RunRecord& run) {
  if (run.prompt.empty() && run.sample.empty()) return R"(<p class="missing">No sample was drawn.</p>)";
  const bool blank = run.prompt.find_first_not_of(" \t\r\n") == run.prompt.npos;
  if (blank) return fmt::format("<pre class=\"sample\" tabindex=\"0\">\n{}</pre>", escape_html(run.sample));
  // An HTML parser drops a line break directly after <pre>. One is written here, so that the text
  // keeps its own first line break.
  return fmt::format("<pre class=\"sample\" tabindex=\"0\">\n<b>{}</b>{}</pre>", escape_html(run.prompt),
                     escape_html(run.sample));
}

std::string settings_table(const std::vector<std::pair<std::string, std::string>>& settings) {
  std::string html = R"(<div class="scroll"><table class="settings"><tbody>)";
  for (const auto& [name, value] : settings) {
    html +=
        fmt::format(R"(<tr><th scope="row">{}</th><td>{}</td></tr>)", escape_html(name), escape_html(value));
  }
  return html + "</tbody></table></div>";
}

double median_speed(const RunRecord& run) {
  std::vector<double> values;
  for (double value : run.speed.y) {
    if (std::isfinite(value)) values.push_back(value);
  }
  if (values.empty()) return not_given;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double total_flops(const RunRecord& run) {
  return run.flops.y.empty() ? not_given : std::accumulate(run.flops.y.begin(), run.flops.y.end(), 0.0);
}

Series smoothed(const Series& series, const std::string& name) {
  Series out = smooth(series, static_cast<int>(series.y.size() / 100));
  out.name = name;
  return out;
}

void add_with_trend(std::vector<Line>& lines, const Series& series, const Color& color) {
  Series raw = series;
  raw.name += ", single";
  lines.push_back({raw, color, LineStyle::faint, series.name});
  lines.push_back({smoothed(series, series.name), color, LineStyle::solid, series.name});
}

bool has_attention(const RunRecord& run) {
  return !run.grad_norm_by_path.empty() || !run.heads.empty() || !run.maps.empty();
}

std::string loss_label(const RunRecord& run) {
  return "loss" + (run.words.loss_unit.empty() ? "" : ", " + run.words.loss_unit);
}

std::string speed_label(const RunRecord& run) { return run.words.item + "s per second"; }

Series geometric_mean(const std::vector<const Series*>& group, const std::string& name) {
  std::map<double, std::pair<double, int>> sums;  // step → (Σ ln value, count)
  for (const Series* series : group) {
    for (size_t i = 0; i < std::min(series->x.size(), series->y.size()); ++i) {
      if (!(series->y[i] > 0) || !std::isfinite(series->y[i]) || !std::isfinite(series->x[i])) continue;
      auto& [sum, count] = sums[series->x[i]];
      sum += std::log(series->y[i]);
      ++count;
    }
  }
  Series mean{name, {}, {}};
  for (const auto& [step, sum] : sums) {
    mean.x.push_back(step);
    mean.y.push_back(std::exp(sum.first / sum.second));
  }
  return mean;
}

double mean_over_heads(const RunRecord& run, double HeadStatistics::*figure) {
  double sum = 0, count = 0;
  for (const HeadStatistics& head : run.heads) {
    if (!std::isfinite(head.*figure)) continue;
    sum += head.*figure;
    ++count;
  }
  return count > 0 ? sum / count : not_given;
}

std::string path_charts(const PathLines& lines, const std::pair<double, double>& range,
                        const std::string& legend_title) {
  struct Panel {
    const char* path;
    const std::vector<Line>* lines;
  };
  std::string html = R"(<div class="panels">)";
  for (const Panel& panel : {Panel{"Q", &lines.q}, Panel{"K", &lines.k}, Panel{"V", &lines.v}}) {
    LineChart chart;
    chart.title = fmt::format("Gradient norm along the {} path", panel.path);
    chart.x = kSteps;
    chart.y = {fmt::format("‖∂L/∂{}‖", panel.path), AxisScale::log, range.first, range.second};
    chart.lines = *panel.lines;
    chart.legend_title = legend_title;
    chart.max_points = 600;
    chart.height = 13;
    html += render_line_chart(chart);
  }
  return html + "</div>";
}

std::string weight_histogram(const std::vector<RunRecord>& runs, int first_color) {
  constexpr int bins = WeightDistribution::bins_per_decade * WeightDistribution::decades;
  Histogram histogram;
  histogram.title = "Distribution of the attention weights";
  histogram.x = {"log₁₀ of the attention weight", AxisScale::linear};
  histogram.y = {"share of the weights, per cent per bin", AxisScale::linear};
  for (int i = 0; i <= bins; ++i) {
    histogram.edges.push_back(static_cast<double>(i) / WeightDistribution::bins_per_decade -
                              WeightDistribution::decades);
  }
  for (size_t i = 0; i < runs.size(); ++i) {
    const WeightDistribution& weights = runs[i].weights;
    if (weights.total() == 0) continue;
    const int index = first_color + static_cast<int>(i);
    Histogram::Group group{runs[i].name, categorical_color(index), categorical_style(index), {}};
    for (double count : weights.counts) group.heights.push_back(100 * count / weights.total());
    histogram.groups.push_back(group);
  }
  histogram.marks = {{Mark::At::x, -7, "10⁻⁷"}, {Mark::At::x, -3, "10⁻³"}};
  return render_histogram(histogram);
}

}  // namespace vitrine::nn::report
