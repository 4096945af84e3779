// Charts that compare runs: differences of their losses, and gradients by depth.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "nn/report/charts/frame.h"
#include "nn/report/html.h"
#include "nn/report/parts.h"

namespace vitrine::nn::report {
namespace {

/// a − b at the steps that both series have.
Series difference(const Series& a, const Series& b, const std::string& name) {
  std::map<double, double> subtracted;
  for (size_t i = 0; i < std::min(b.x.size(), b.y.size()); ++i) subtracted[b.x[i]] = b.y[i];
  Series result{name, {}, {}};
  for (size_t i = 0; i < std::min(a.x.size(), a.y.size()); ++i)
    if (const auto found = subtracted.find(a.x[i]); found != subtracted.end())
      result.add(a.x[i], a.y[i] - found->second);
  return result;
}

/// One norm per layer of a run, by layer number from 1. `of` reduces a layer's norms over steps to
/// one value.
Series by_depth(const RunRecord& run, double (*of)(const Series&)) {
  Series norms{run.name, {}, {}};
  for (const Series& layer : run.grad_norm_by_layer)
    norms.add(static_cast<double>(norms.x.size()) + 1, of(layer));
  return norms;
}

double at_first_step(const Series& norms) { return norms.y.empty() ? not_given : norms.y.front(); }

double over_second_half(const Series& norms) {
  double sum = 0, count = 0;
  for (size_t i = norms.y.size() / 2; i < norms.y.size(); ++i) {
    if (!(norms.y[i] > 0) || !std::isfinite(norms.y[i])) continue;
    sum += std::log(norms.y[i]);
    ++count;
  }
  return count > 0 ? std::exp(sum / count) : not_given;
}

/// The values of a series at the operations that training had cost by then.
Series over_cost(const Series& series, const Series& flops, const std::string& name) {
  std::map<double, double> cost;  // by step
  double sum = 0;
  for (size_t i = 0; i < std::min(flops.x.size(), flops.y.size()); ++i) cost[flops.x[i]] = sum += flops.y[i];
  Series result{name, {}, {}};
  for (size_t i = 0; i < std::min(series.x.size(), series.y.size()); ++i)
    if (const auto found = cost.find(series.x[i]); found != cost.end())
      result.add(found->second, series.y[i]);
  return result;
}

}  // namespace

std::string cost_card(const std::vector<RunRecord>& runs) {
  LineChart chart;
  chart.title = "Loss over the cost of training";
  chart.x = {.label = "floating-point operations so far"};
  chart.y.label = loss_label(runs.front());
  chart.max_points = 1000;
  for (const RunRecord& run : runs) {
    if (run.flops.y.empty()) continue;
    const int index = method_index(runs, run);
    const Color color = categorical_color(index);
    chart.lines.push_back({over_cost(smoothed(run.train_loss, run.name), run.flops, run.name + ", training"),
                           color, categorical_style(index), method_of(run)});
    chart.lines.push_back({over_cost(run.validation_loss, run.flops, run.name + ", validation"), color,
                           LineStyle::dots, method_of(run)});
  }
  if (chart.lines.empty()) return "";
  return card("Loss over cost", render_line_chart(chart),
              "The same losses over the operations of matrix products, convolutions, attention and scans, "
              "which do not depend on the machine. At equal cost, the lower line is the better use of it.",
              "wide");
}

std::string difference_card(const std::vector<RunRecord>& runs) {
  LineChart chart;
  const std::string& first = method_of(runs.front());
  chart.title = "Loss minus the loss of " + first;
  chart.x = kSteps;
  chart.y.label = "difference of " + loss_label(runs.front());
  chart.marks = {{Mark::At::y, 0, first}};
  for (const RunRecord& run : runs) {
    const RunRecord& reference = reference_of(runs, run);
    if (&run == &reference) continue;
    const int index = method_index(runs, run);
    const Color color = categorical_color(index);
    const Series training = difference(run.train_loss, reference.train_loss, run.name);
    chart.lines.push_back(
        {smoothed(training, run.name + ", training"), color, categorical_style(index), method_of(run)});
    chart.lines.push_back(
        {difference(run.validation_loss, reference.validation_loss, run.name + ", validation"), color,
         LineStyle::dots, method_of(run)});
  }
  std::vector<double> drawn = {0};
  for (const Line& line : chart.lines) drawn.insert(drawn.end(), line.series.y.begin(), line.series.y.end());
  std::tie(chart.y.low, chart.y.high) =
      with_margin(drawable_range(drawn, AxisScale::linear), AxisScale::linear);
  chart.max_points = 1000;
  return card(
      "Difference to " + first, render_line_chart(chart),
      "The loss of a run minus the loss of the first method's run with the same seed at the same step. If "
      "there is no such run, the first run is used. Values below 0 mean that a run is better. Lines are "
      "training batches, smoothed as above; dots are the validation data. Runs with the same seed see the "
      "same batches, so their difference has much less noise than either curve.",
      "wide");
}

std::string depth_card(const std::vector<RunRecord>& runs) {
  struct Panel {
    const char* when;
    double (*of)(const Series&);
    std::vector<Line> lines = {};
  };
  Panel panels[] = {{"at the first step", at_first_step},
                    {"over the second half of training", over_second_half}};
  std::vector<double> norms;
  size_t deepest = 0;
  for (const RunRecord& run : runs) {
    deepest = std::max(deepest, run.grad_norm_by_layer.size());
    const int index = method_index(runs, run);
    for (Panel& panel : panels) {
      panel.lines.push_back(
          {by_depth(run, panel.of), categorical_color(index), LineStyle::dots, method_of(run)});
      const auto& values = panel.lines.back().series.y;
      norms.insert(norms.end(), values.begin(), values.end());
    }
  }
  if (deepest < 2) return "";
  const auto [low, high] = with_margin(drawable_range(norms, AxisScale::log), AxisScale::log);
  std::string html = R"(<div class="panels two">)";
  for (const Panel& panel : panels) {
    LineChart chart;
    chart.title = fmt::format("Gradient norm by depth {}", panel.when);
    chart.x.label = "layer, from the input on";
    chart.x.whole = true;
    chart.y = {fmt::format("‖∂L/∂θ‖ {}", panel.when), AxisScale::log, low, high};
    chart.lines = panel.lines;
    chart.height = 15;
    html += render_line_chart(chart);
  }
  return card(
      "Gradients by depth", html + "</div>",
      "The norm of the gradient of each layer's parameters, one line per run: at the first step, and as the "
      "geometric mean over the second half of training. With such lines Xiong et al. (2020) compare norms "
      "before the sublayers (pre-norm) with norms after the residual sums (post-norm), and explain why the "
      "latter need a warmup.",
      "wide");
}

}  // namespace vitrine::nn::report
