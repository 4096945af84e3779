// The section of one run.
#include <fmt/format.h>

#include <cmath>
#include <set>

#include "nn/metrics/metric.h"
#include "nn/report/html.h"
#include "nn/report/parts.h"

namespace vitrine::nn::report {
namespace {

std::string tile(const std::string& value, const std::string& label) {
  return fmt::format(R"(<div class="tile"><b>{}</b><span>{}</span></div>)", value, label);
}

std::string loss_card(const RunRecord& run) {
  LineChart chart;
  chart.title = "Loss over training";
  chart.x = kSteps;
  chart.y.label = loss_label(run);
  chart.max_points = 1000;
  chart.height = 22;
  Series raw = run.train_loss, validation = run.validation_loss;
  raw.name = "training, each step";
  validation.name = "validation";
  chart.lines = {{raw, categorical_color(0), LineStyle::faint},
                 {smoothed(raw, "training, smoothed"), categorical_color(0), LineStyle::solid},
                 {validation, categorical_color(1), LineStyle::dots}};
  // Without training losses, the smoothed line would only repeat the note that values are missing.
  if (raw.y.empty()) chart.lines.erase(chart.lines.begin() + 1);
  if (run.words.classes > 1) {
    const double guess = std::log(static_cast<double>(run.words.classes));
    chart.marks = {{Mark::At::y, guess, fmt::format("ln {} = {:.2f}: guessing", run.words.classes, guess)}};
  }
  return card(
      "Loss", render_line_chart(chart),
      escape_html(run.words.loss_meaning) +
          " Faint is each step's batch, or the range of neighbouring steps where they are many; solid is "
          "the mean over the hundredth of the run on each side. The dots are the validation data, on which "
          "the model never trains. Where the dots part from the line, the model begins to learn its "
          "training data by heart.",
      "wide");
}

std::string metric_cards(const RunRecord& run) {
  std::string html;
  for (const MetricValues& metric : run.metrics) {
    LineChart chart;
    chart.title = metric.name + " on the validation data";
    chart.x = kSteps;
    chart.y.label = metric.name;
    chart.lines = {{metric.values, categorical_color(1), LineStyle::dots}};
    chart.lines[0].series.name = metric.name;
    chart.height = 13;
    // Two cards share a row; a last single card takes the whole row.
    const bool is_left_over = run.metrics.size() % 2 == 1 && &metric == &run.metrics.back();
    html += card(metric.name, render_line_chart(chart),
                 fmt::format("On the whole validation split; {} is better.",
                             metric.more_is_better ? "higher" : "lower"),
                 is_left_over ? "wide" : "");
  }
  return html;
}

std::string learning_rate_card(const RunRecord& run, const SharedRanges& ranges) {
  LineChart chart;
  chart.title = "Learning rate";
  chart.x = kSteps;
  chart.y = {"learning rate", AxisScale::linear, 0, ranges.learning_rate.second};
  chart.lines = {{run.learning_rate, categorical_color(0)}};
  chart.lines[0].series.name = "learning rate";
  chart.height = 13;
  return card(
      "Learning rate", render_line_chart(chart),
      "The factor of each optimizer step along the (rescaled) gradient. The rise at the start is the warmup: "
      "at first, Adam estimates the size of the gradient from few batches, and large steps would follow noise.");
}

std::string speed_card(const RunRecord& run, const SharedRanges& ranges) {
  LineChart chart;
  chart.title = "Speed";
  chart.x = kSteps;
  chart.y = {speed_label(run), AxisScale::linear, 0, ranges.speed.second};
  Series speed = run.speed;
  speed.name = speed_label(run);
  add_with_trend(chart.lines, speed, categorical_color(2));
  if (speed.y.empty()) chart.lines.pop_back();  // one note about missing values is enough
  chart.max_points = 600;
  chart.height = 13;
  return card(
      "Speed", render_line_chart(chart),
      fmt::format(
          "Training {}s per second of wall-clock time. The faint line is each step, or the range of neighbouring "
          "steps if there are many. The solid line is the mean over one hundredth of the run on each side. "
          "Dips are caused by other work of the machine.",
          escape_html(run.words.item)));
}

std::string layer_gradients_card(const RunRecord& run, const SharedRanges& ranges) {
  LineChart chart;
  chart.title = "Gradient norm by layer";
  chart.x = kSteps;
  chart.y = {"‖∂L/∂θ‖ of the layer's parameters", AxisScale::log, ranges.layer_gradients.first,
             ranges.layer_gradients.second};
  chart.legend_title = "layer";
  chart.max_points = 800;
  const int count = static_cast<int>(run.grad_norm_by_layer.size());
  for (int i = 0; i < count; ++i) {
    add_with_trend(chart.lines, run.grad_norm_by_layer[static_cast<size_t>(i)], ordered_color(i, count));
  }
  return card(
      "Gradients by layer", render_line_chart(chart),
      "The norm ‖<i>g</i>‖ = √Σ<i>g</i>² of the gradient of each layer's parameters, on a logarithmic axis. "
      "With plain gradient descent, layers with very different norms would learn at very different speeds; "
      "Adam compensates for this. If a line falls to 0, the layer no longer learns. A spike is a batch that "
      "may disturb the model, which is why gradients are clipped.",
      "wide");
}

std::string path_gradients_card(const RunRecord& run, const SharedRanges& ranges) {
  PathLines lines;
  const int count = static_cast<int>(run.grad_norm_by_path.size());
  for (int i = 0; i < count; ++i) {
    const PathGradients& attention = run.grad_norm_by_path[static_cast<size_t>(i)];
    const auto add = [&](std::vector<Line>& panel, const Series& path) {
      Series named = path;
      named.name = attention.name;
      add_with_trend(panel, named, ordered_color(i, count));
    };
    add(lines.q, attention.q);
    add(lines.k, attention.k);
    add(lines.v, attention.v);
  }
  return card(
      "Gradients along queries, keys and values", path_charts(lines, ranges.path_gradients, "attention"),
      "The norm of the loss's gradient with respect to the projected queries, keys and values. The V path "
      "passes only the weights <i>p</i>; the Q and K paths also pass the Jacobian of the softmax, "
      "∂<i>p<sub>i</sub></i>/∂<i>s<sub>j</sub></i> = α(<i>p<sub>i</sub></i>δ<sub><i>ij</i></sub> − "
      "<i>p<sub>i</sub>p<sub>j</sub></i>), which vanishes where attention is sharp.",
      "wide");
}

std::string weights_card(const RunRecord& run, int index) {
  const WeightDistribution& weights = run.weights;
  const double total = weights.total();
  if (total == 0)
    return card("Distribution of the weights", R"(<p class="missing">No weights were counted.</p>)", "");
  const auto percent = [](double share) { return readable_number(100 * share, 3) + " %"; };
  std::string content = weight_histogram({run}, index);
  content += R"(<div class="tiles small">)" + tile(percent(weights.share_below(-3)), "below 10⁻³") +
             tile(percent(weights.share_below(-7)), "below 10⁻⁷") +
             tile(percent(weights.below / total), "below 10⁻¹², left of the picture") + "</div>";
  if (weights.not_a_number > 0) {
    content += fmt::format(R"(<p class="note">{} weights are NaN and were not counted.</p>)",
                           readable_number(weights.not_a_number));
  }
  return card(
      "Distribution of the weights", content,
      "All attention weights <i>p<sub>ij</sub></i> of visible keys, by size. The gradient of a score is "
      "<i>p<sub>ij</sub></i> times a factor of ordinary size. A weight below 10⁻³ therefore passes almost no "
      "gradient, and a weight below 10⁻⁷ is lost when it is added to 1 in single precision.",
      "wide");
}

/// A heat table, layers × heads, of one figure of the heads.
HeatTable head_table(const RunRecord& run, const std::string& title, double HeadStatistics::*figure) {
  std::set<int> layers, heads;
  for (const HeadStatistics& head : run.heads) {
    layers.insert(head.layer);
    heads.insert(head.head);
  }
  HeatTable table;
  table.title = title;
  table.row_title = "layer";
  table.column_title = "head";
  for (int layer : layers) table.rows.push_back(fmt::format("{}", layer));
  for (int head : heads) table.columns.push_back(fmt::format("{}", head));
  table.values.assign(layers.size() * heads.size(), not_given);
  for (const HeadStatistics& head : run.heads) {
    const auto row = std::distance(layers.begin(), layers.find(head.layer));
    const auto column = std::distance(heads.begin(), heads.find(head.head));
    table.values[static_cast<size_t>(row) * heads.size() + static_cast<size_t>(column)] = head.*figure;
  }
  return table;
}

std::string entropy_card(const RunRecord& run) {
  HeatTable table = head_table(run, "entropy, nats", &HeadStatistics::entropy);
  table.low = 0;
  double limit = not_given;
  for (const HeadStatistics& head : run.heads) limit = std::fmax(limit, head.entropy_limit);
  if (limit > 0) table.high = limit;
  table.format = [](double value) { return fmt::format("{:.2f}", value); };
  const std::string ceiling =
      limit > 0 ? fmt::format(" Here equal weights would give {:.2f}, the strongest shade.", limit) : "";
  return card("Entropy of each head", render_heat_table(table),
              "<i>H</i> = −Σ<sub><i>j</i></sub> <i>p<sub>j</sub></i> ln <i>p<sub>j</sub></i>, mean over the "
              "queries: 0 "
              "for a head that looks at one token, ln <i>n</i> for one that averages all <i>n</i> it sees." +
                  ceiling);
}

std::string jacobian_card(const RunRecord& run, const SharedRanges& ranges) {
  HeatTable table = head_table(run, "½‖∂p/∂z‖₁", &HeadStatistics::jacobian);
  table.low = 0;
  if (ranges.jacobian_high > 0) table.high = ranges.jacobian_high;
  const int decimals = ranges.jacobian_high < 10 ? 3 : 2;
  table.format = [decimals](double value) { return fmt::format("{:.{}f}", value, decimals); };
  return card(
      "Size of the weights' Jacobian", render_heat_table(table),
      "Half the L1 norm of ∂<i>p</i>/∂<i>z</i> for the weights <i>p</i> and the products <i>z</i> of queries "
      "and keys: how much gradient the weights pass on. For softmax without a softcap it is "
      "α(1 − Σ<sub><i>j</i></sub> <i>p<sub>j</sub></i>²): 0 for one-hot attention and nearly α for uniform "
      "attention.");
}

/// Shares and gradients per head, in a collapsed section, because few readers need them.
std::string more_head_tables(const RunRecord& run, const SharedRanges& ranges) {
  std::string shares, gradients;
  for (const auto& [title, figure] : {std::pair{"weights below 10⁻³, %", &HeadStatistics::share_below_1e3},
                                      std::pair{"weights below 10⁻⁷, %", &HeadStatistics::share_below_1e7}}) {
    HeatTable table = head_table(run, title, figure);
    table.low = 0;
    table.high = 1;
    table.format = [](double value) { return fmt::format("{:.0f}", 100 * value); };
    shares += render_heat_table(table);
  }
  for (const auto& [title, figure] : {std::pair{"‖∂L/∂Q‖", &HeadStatistics::grad_norm_q},
                                      std::pair{"‖∂L/∂K‖", &HeadStatistics::grad_norm_k},
                                      std::pair{"‖∂L/∂V‖", &HeadStatistics::grad_norm_v}}) {
    HeatTable table = head_table(run, title, figure);
    table.scale = AxisScale::log;
    std::tie(table.low, table.high) = ranges.head_gradients;
    table.format = [](double value) { return readable_number(value, 2); };
    gradients += render_heat_table(table);
  }
  return card(
      "More about each head",
      R"(<div class="heats">)" + shares + R"(</div><div class="heats">)" + gradients + "</div>",
      "The share of small weights, and the norm of the gradient of each head's queries, keys and values "
      "(shaded by its logarithm, with the same scale in all three tables).",
      "wide");
}

}  // namespace

std::string summary_tiles(const RunRecord& run) {
  const double loss = final_validation_loss(run);
  std::string html = R"(<div class="tiles">)";
  const auto add = [&](bool known, const std::string& value, const std::string& label) {
    if (known) html += tile(value, label);
  };
  add(!std::isnan(loss), readable_number(loss, 5), escape_html("final validation " + loss_label(run)));
  for (const MetricValues& metric : run.metrics)
    add(!std::isnan(metric.last()), escape_html(formatted(metric.format, metric.last())),
        escape_html(metric.name));
  add(!std::isnan(total_flops(run)), readable_flops(total_flops(run)), "training cost");
  const double speed = median_speed(run);
  add(!std::isnan(speed), readable_number(speed, 4), escape_html(speed_label(run)) + " (median)");
  add(!std::isnan(run.peak_memory_bytes), readable_bytes(run.peak_memory_bytes), "peak memory of tensors");
  add(run.parameters > 0, readable_number(static_cast<double>(run.parameters), 4), "parameters");
  add(!std::isnan(run.seconds), readable_duration(run.seconds), "time");
  return html + "</div>\n";
}

namespace {

/// The cards of the heads: maps, statistics and gradients.
std::string attention_cards(const RunRecord& run, int index, const SharedRanges& ranges) {
  std::string html;
  if (!run.grad_norm_by_path.empty()) html += path_gradients_card(run, ranges);
  html += map_viewer(run, index) + weights_card(run, index);
  if (run.heads.empty())
    return html + card("Heads", R"(<p class="missing">No statistics of the heads were taken.</p>)", "");
  return html + entropy_card(run) + jacobian_card(run, ranges) + more_head_tables(run, ranges);
}

}  // namespace

std::string run_section(const RunRecord& run, int index, const SharedRanges& ranges) {
  std::string html = R"(<div class="cards">)";
  html += loss_card(run) + metric_cards(run) + learning_rate_card(run, ranges) + speed_card(run, ranges);
  if (!run.grad_norm_by_layer.empty()) html += layer_gradients_card(run, ranges);
  html += result_cards(run);
  if (has_attention(run)) html += attention_cards(run, index, ranges);
  if (run.words.writes_text || !run.sample.empty())
    html += card("Sample", sample_text(run),
                 "The text that the trained model generates, token by token; the prompt is in bold.", "wide");
  if (!run.settings.empty()) html += card("Settings", settings_table(run.settings), "", "wide");
  return html + "</div>\n";
}

}  // namespace vitrine::nn::report
