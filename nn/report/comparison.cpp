// The comparison of several runs on the same axes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "nn/report/charts/frame.h"
#include "nn/report/html.h"
#include "nn/report/parts.h"

namespace vitrine::nn::report {
namespace {

std::vector<Line> loss_lines(const std::vector<RunRecord>& runs) {
  std::vector<Line> lines;
  for (const RunRecord& run : runs) {
    const int index = method_index(runs, run);
    const Color color = categorical_color(index);
    Series validation = run.validation_loss;
    validation.name = run.name + ", validation";
    lines.push_back(
        {smoothed(run.train_loss, run.name + ", training"), color, categorical_style(index), method_of(run)});
    lines.push_back({validation, color, LineStyle::dots, method_of(run)});
  }
  return lines;
}

double last_step(const std::vector<Line>& lines) {
  double last = 0;
  for (const Line& line : lines)
    last = std::fmax(last, drawable_range(line.series.x, AxisScale::linear).second);
  return last;
}

/// The points with x ≥ from.
Series tail(const Series& series, double from) {
  Series out{series.name, {}, {}};
  for (size_t i = 0; i < std::min(series.x.size(), series.y.size()); ++i) {
    if (!(series.x[i] >= from)) continue;
    out.x.push_back(series.x[i]);
    out.y.push_back(series.y[i]);
  }
  return out;
}

std::string loss_cards(const std::vector<RunRecord>& runs) {
  LineChart whole;
  whole.title = "Loss of all runs";
  whole.x = kSteps;
  whole.y.label = loss_label(runs.front());
  whole.lines = loss_lines(runs);
  whole.max_points = 1000;
  LineChart end = whole;
  end.title = "Loss of all runs over the second half of training";
  const double middle = last_step(whole.lines) / 2;
  for (Line& line : end.lines) line.series = tail(line.series, middle);
  return card("Loss", render_line_chart(whole),
              escape_html(runs.front().words.loss_meaning) +
                  " Lines are training batches, each point the mean over the hundredth of the run on each "
                  "side; dots are the validation data.") +
         card("The second half, enlarged", render_line_chart(end),
              "The same lines over the second half of training.");
}

std::string gradients_card(const std::vector<RunRecord>& runs) {
  PathLines lines;
  std::vector<double> values;
  for (const RunRecord& run : runs) {
    const int index = method_index(runs, run);
    if (run.grad_norm_by_path.empty()) continue;  // its mixers have no queries, keys and values
    const auto add = [&](std::vector<Line>& panel, Series PathGradients::*path) {
      std::vector<const Series*> layers;
      for (const PathGradients& layer : run.grad_norm_by_path) layers.push_back(&(layer.*path));
      panel.push_back({geometric_mean(layers, run.name), categorical_color(index), categorical_style(index),
                       method_of(run)});
      values.insert(values.end(), panel.back().series.y.begin(), panel.back().series.y.end());
    };
    add(lines.q, &PathGradients::q);
    add(lines.k, &PathGradients::k);
    add(lines.v, &PathGradients::v);
  }
  return card(
      "Gradients along queries, keys and values",
      path_charts(lines, with_margin(drawable_range(values, AxisScale::log), AxisScale::log), ""),
      "The norm of the gradient of the projected queries, keys and values, as the geometric mean over the "
      "layers. Q and K learn only through the Jacobian of the softmax, "
      "α(<i>p<sub>i</sub></i>δ<sub><i>ij</i></sub> − <i>p<sub>i</sub>p<sub>j</sub></i>). A mechanism that "
      "keeps this Jacobian from vanishing raises their lines relative to V.",
      "wide");
}

/// One run per method, with the summed weights of its runs.
std::vector<RunRecord> weights_of_methods(const std::vector<RunRecord>& runs) {
  std::vector<RunRecord> sums;
  for (const std::string& method : methods_of(runs)) {
    RunRecord& sum = sums.emplace_back();
    sum.name = method;
    for (const RunRecord& run : runs)
      if (method_of(run) == method) sum.weights.add(run.weights);
  }
  return sums;
}

std::string weights_card(const std::vector<RunRecord>& runs) {
  return card(
      "Distribution of the weights", weight_histogram(weights_of_methods(runs), 0),
      "All attention weights of visible keys, by size. A weight below 10⁻³ passes almost no gradient to its "
      "score. A weight below 10⁻⁷ is lost when it is added to 1 in single precision.",
      "wide");
}

std::string metric_cards(const std::vector<RunRecord>& runs) {
  std::string html;
  for (const MetricValues& metric : runs.front().metrics) {
    LineChart chart;
    chart.title = metric.name + " of all runs on the validation data";
    chart.x = kSteps;
    chart.y.label = metric.name;
    chart.height = 13;
    for (const RunRecord& run : runs)
      for (const MetricValues& other : run.metrics) {
        if (other.name != metric.name) continue;
        chart.lines.push_back(
            {other.values, categorical_color(method_index(runs, run)), LineStyle::dots, method_of(run)});
        chart.lines.back().series.name = run.name;
      }
    // Two cards share a row; a last single card takes the whole row.
    const bool is_left_over = runs.front().metrics.size() % 2 == 1 && &metric == &runs.front().metrics.back();
    html += card(metric.name, render_line_chart(chart),
                 fmt::format("On the whole validation split; {} is better.",
                             metric.more_is_better ? "higher" : "lower"),
                 is_left_over ? "wide" : "");
  }
  return html;
}

std::string samples_card(const std::vector<RunRecord>& runs) {
  std::string html = R"(<div class="samples">)";
  for (const RunRecord& run : runs) {
    html += fmt::format("<div><h4>{}</h4>{}</div>", escape_html(run.name), sample_text(run));
  }
  return card("Samples", html + "</div>", "The text that each model generates; the prompt is in bold.",
              "wide");
}

std::string differing_settings_card(const std::vector<RunRecord>& runs) {
  std::vector<std::string> names;
  std::map<std::string, std::vector<std::string>> values;
  for (size_t i = 0; i < runs.size(); ++i) {
    for (const auto& [name, value] : runs[i].settings) {
      if (values.count(name) == 0) names.push_back(name);
      values[name].resize(runs.size(), "–");
      values[name][i] = value;
    }
  }
  std::string rows;
  for (const std::string& name : names) {
    const std::vector<std::string>& row = values[name];
    if (std::set<std::string>(row.begin(), row.end()).size() < 2) continue;
    rows += fmt::format(R"(<tr><th scope="row">{}</th>)", escape_html(name));
    for (const std::string& value : row) rows += fmt::format("<td>{}</td>", escape_html(value));
    rows += "</tr>";
  }
  if (rows.empty()) return "";
  return card("Settings that differ", totals_table(run_columns(runs), rows),
              "All other settings are the same in all runs.", "wide");
}

}  // namespace

std::string comparison_section(const std::vector<RunRecord>& runs) {
  const auto any = [&runs](auto has) { return std::any_of(runs.begin(), runs.end(), has); };
  std::string html = R"(<div class="cards">)" + loss_cards(runs) + cost_card(runs) + difference_card(runs) +
                     metric_cards(runs);
  html += means_card(runs) + totals_card(runs) + differing_settings_card(runs) + depth_card(runs);
  if (any([](const RunRecord& run) { return !run.grad_norm_by_path.empty(); })) html += gradients_card(runs);
  html += map_pair(runs);
  if (any([](const RunRecord& run) { return run.weights.total() > 0; })) html += weights_card(runs);
  if (any([](const RunRecord& run) { return run.words.writes_text || !run.sample.empty(); }))
    html += samples_card(runs);
  return html + "</div>\n";
}

}  // namespace vitrine::nn::report
