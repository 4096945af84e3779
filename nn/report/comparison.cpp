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

const std::string& method_of(const RunRecord& run) { return run.method.empty() ? run.name : run.method; }

std::vector<std::string> methods_of(const std::vector<RunRecord>& runs) {
  std::vector<std::string> methods;
  for (const RunRecord& run : runs)
    if (std::find(methods.begin(), methods.end(), method_of(run)) == methods.end())
      methods.push_back(method_of(run));
  return methods;
}

/// What gives a run its color, which all runs of a method share.
int method_index(const std::vector<RunRecord>& runs, const RunRecord& run) {
  const auto methods = methods_of(runs);
  return static_cast<int>(std::find(methods.begin(), methods.end(), method_of(run)) - methods.begin());
}

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
  whole.x.label = "step";
  whole.y.label = "loss, nats per token";
  whole.lines = loss_lines(runs);
  whole.max_points = 1000;
  LineChart end = whole;
  end.title = "Loss of all runs over the second half of training";
  const double middle = last_step(whole.lines) / 2;
  for (Line& line : end.lines) line.series = tail(line.series, middle);
  return card("Loss", render_line_chart(whole),
              "The cross-entropy <i>L</i> = −mean ln <i>p</i>(next token | text before it). Lines are "
              "training batches, each point the mean over the hundredth of the run on each side; dots are "
              "validation text.") +
         card("The second half, enlarged", render_line_chart(end),
              "The same lines from the middle of training on. Runs of one method with different seeds "
              "commonly end about "
              "0.01 apart: a smaller distance than that between two methods says nothing yet.");
}

struct TotalsRow {
  std::string label;
  std::vector<double> values;
  std::function<std::string(double)> format;
  bool least_is_best = false;
};

std::vector<double> of_each(const std::vector<RunRecord>& runs,
                            const std::function<double(const RunRecord&)>& figure) {
  std::vector<double> values;
  for (const RunRecord& run : runs) values.push_back(figure(run));
  return values;
}

std::vector<TotalsRow> totals_rows(const std::vector<RunRecord>& runs) {
  const auto digits = [](int count) {
    return [count](double value) { return readable_number(value, count); };
  };
  const auto percent = [](double value) {
    return std::isnan(value) ? readable_number(value) : readable_number(100 * value, 3) + " %";
  };
  const auto difference = [](double value) {
    if (std::isnan(value)) return readable_number(value);
    const std::string size = fmt::format("{:.4f}", std::abs(value));
    return (value < 0 && size != "0.0000" ? "−" : "+") + size;
  };
  const double reference = final_validation_loss(runs.front());
  const auto entropy_share = [](const RunRecord& run) {
    return mean_over_heads(run, &HeadStatistics::entropy) /
           mean_over_heads(run, &HeadStatistics::entropy_limit);
  };
  const auto count = [](const RunRecord& run) {
    return run.parameters > 0 ? static_cast<double>(run.parameters) : not_given;
  };
  return {
      {"final validation loss, nats per token", of_each(runs, final_validation_loss), digits(5), true},
      {"difference to " + runs.front().name,
       of_each(runs, [&](const RunRecord& run) { return final_validation_loss(run) - reference; }),
       difference},
      {"perplexity", of_each(runs, [](const RunRecord& run) { return std::exp(final_validation_loss(run)); }),
       digits(4)},
      {"tokens per second (median)", of_each(runs, median_tokens_per_second), digits(4)},
      {"peak memory of tensors", of_each(runs, [](const RunRecord& run) { return run.peak_memory_bytes; }),
       readable_bytes},
      {"parameters", of_each(runs, count), digits(4)},
      {"time", of_each(runs, [](const RunRecord& run) { return run.seconds; }), readable_duration},
      {"entropy, share of its limit", of_each(runs, entropy_share), percent},
      {"softmax Jacobian ½‖∂p/∂z‖₁, mean",
       of_each(runs, [](const RunRecord& run) { return mean_over_heads(run, &HeadStatistics::jacobian); }),
       digits(3)},
      {"weights below 10⁻³", of_each(runs, [](const RunRecord& run) { return run.weights.share_below(-3); }),
       percent},
      {"weights below 10⁻⁷", of_each(runs, [](const RunRecord& run) { return run.weights.share_below(-7); }),
       percent},
  };
}

std::string header_cell(int index, const std::string& name) {
  return fmt::format(R"(<th scope="col"><i class="swatch disc {}" style="{}"></i>{}</th>)",
                     css_class(categorical_style(index)), color_style(categorical_color(index)),
                     escape_html(name));
}

std::string header_cells(const std::vector<RunRecord>& runs) {
  std::string html;
  for (const RunRecord& run : runs) html += header_cell(method_index(runs, run), run.name);
  return html;
}

/// Of each method with several runs what they reach on average, and how far they lie apart; ""
/// where there is none.
std::string means_card(const std::vector<RunRecord>& runs) {
  const auto methods = methods_of(runs);
  if (methods.size() == runs.size()) return "";
  std::string header, means, deviations, counts;
  for (size_t i = 0; i < methods.size(); ++i) {
    std::vector<double> losses;
    for (const RunRecord& run : runs)
      if (method_of(run) == methods[i] && !std::isnan(final_validation_loss(run)))
        losses.push_back(final_validation_loss(run));
    const auto n = static_cast<double>(losses.size());
    double mean = 0, squares = 0;
    for (const double x : losses) mean += x / n;
    for (const double x : losses) squares += (x - mean) * (x - mean);
    header += header_cell(static_cast<int>(i), methods[i]);
    counts += fmt::format("<td>{}</td>", losses.size());
    means += fmt::format("<td>{}</td>", readable_number(n > 0 ? mean : not_given, 5));
    deviations +=
        fmt::format("<td>{}</td>", readable_number(n > 1 ? std::sqrt(squares / (n - 1)) : not_given, 2));
  }
  const auto row = [](const char* label, const std::string& cells) {
    return fmt::format(R"(<tr><th scope="row">{}</th>{}</tr>)", label, cells);
  };
  return card("Means over seeds",
              R"(<div class="scroll"><table class="totals"><thead><tr><td></td>)" + header +
                  "</tr></thead><tbody>" + row("final validation loss, mean", means) +
                  row("its standard deviation", deviations) + row("runs with a loss", counts) +
                  "</tbody></table></div>",
              "A difference of means that is no larger than the deviations says nothing yet.", "wide");
}

std::string totals_card(const std::vector<RunRecord>& runs) {
  std::string html = R"(<div class="scroll"><table class="totals"><thead><tr><td></td>)";
  html += header_cells(runs) + "</tr></thead><tbody>";
  for (const TotalsRow& row : totals_rows(runs)) {
    if (std::all_of(row.values.begin(), row.values.end(), [](double value) { return std::isnan(value); }))
      continue;
    const double best = drawable_range(row.values, AxisScale::linear).first;
    html += fmt::format(R"(<tr><th scope="row">{}</th>)", escape_html(row.label));
    for (double value : row.values) {
      const bool is_best = row.least_is_best && value == best;
      html += fmt::format("<td{}>{}</td>", is_best ? R"( class="best")" : "", row.format(value));
    }
    html += "</tr>";
  }
  return card("Totals", html + "</tbody></table></div>", "The least final validation loss is marked.",
              "wide");
}

/// Of a group of series on the same steps, the geometric mean of the values at each step: one line
/// for all layers.
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

std::string gradients_card(const std::vector<RunRecord>& runs) {
  PathLines lines;
  std::vector<double> values;
  for (const RunRecord& run : runs) {
    const int index = method_index(runs, run);
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
      path_charts(lines, drawable_range(values, AxisScale::log), ""),
      "The gradient that arrives at the projected queries, keys and values, as the geometric mean over the "
      "layers. Q and K learn only through the Jacobian of the softmax, "
      "α(<i>p<sub>i</sub></i>δ<sub><i>ij</i></sub> − <i>p<sub>i</sub>p<sub>j</sub></i>); a mechanism that "
      "keeps it from vanishing lifts their lines against V.",
      "wide");
}

/// One run a method, with the weights of all its runs.
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
      "All attention weights of visible keys, by size. What lies left of 10⁻³ hardly passes a gradient on to "
      "its score; what lies left of 10⁻⁷ vanishes beside 1 in single precision.",
      "wide");
}

std::string samples_card(const std::vector<RunRecord>& runs) {
  std::string html = R"(<div class="samples">)";
  for (const RunRecord& run : runs) {
    html += fmt::format("<div><h4>{}</h4>{}</div>", escape_html(run.name), sample_text(run));
  }
  return card("Samples", html + "</div>", "What each model writes; a prompt that it continues is in bold.",
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
  return card("Settings that differ",
              R"(<div class="scroll"><table class="totals"><thead><tr><td></td>)" + header_cells(runs) +
                  "</tr></thead><tbody>" + rows + "</tbody></table></div>",
              "All others are the same in all runs.", "wide");
}

}  // namespace

std::string comparison_section(const std::vector<RunRecord>& runs) {
  return R"(<div class="cards">)" + loss_cards(runs) + means_card(runs) + totals_card(runs) +
         differing_settings_card(runs) + gradients_card(runs) + weights_card(runs) + samples_card(runs) +
         "</div>\n";
}

}  // namespace vitrine::nn::report
