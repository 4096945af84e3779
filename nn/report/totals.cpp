// The figures of several runs: of each run, and of each method over its seeds.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "nn/metrics/metric.h"
#include "nn/report/charts/frame.h"
#include "nn/report/html.h"
#include "nn/report/parts.h"

namespace vitrine::nn::report {
namespace {

struct TotalsRow {
  enum class Best { none, least, most };
  std::string label;
  std::vector<double> values;
  std::function<std::string(double)> format;
  Best best = Best::none;
};

std::vector<double> of_each(const std::vector<RunRecord>& runs,
                            const std::function<double(const RunRecord&)>& figure) {
  std::vector<double> values;
  for (const RunRecord& run : runs) values.push_back(figure(run));
  return values;
}

std::function<std::string(double)> with_digits(int count) {
  return [count](double value) { return readable_number(value, count); };
}

std::string per_cent(double value) {
  return std::isnan(value) ? readable_number(value) : readable_number(100 * value, 3) + " %";
}

/// The rows with the results of the runs.
std::vector<TotalsRow> result_rows(const std::vector<RunRecord>& runs) {
  std::vector<TotalsRow> rows = {{"final validation " + loss_label(runs.front()),
                                  of_each(runs, final_validation_loss), with_digits(5),
                                  TotalsRow::Best::least}};
  for (const MetricValues& metric : runs.front().metrics) {
    const auto last = [&metric](const RunRecord& run) {
      for (const MetricValues& other : run.metrics)
        if (other.name == metric.name) return other.last();
      return not_given;
    };
    rows.push_back({metric.name, of_each(runs, last),
                    [format = metric.format](double value) { return formatted(format, value); },
                    metric.more_is_better ? TotalsRow::Best::most : TotalsRow::Best::least});
  }
  return rows;
}

/// The rows with the costs of the runs and the statistics of their attention.
std::vector<TotalsRow> other_rows(const std::vector<RunRecord>& runs) {
  const auto entropy_share = [](const RunRecord& run) {
    return mean_over_heads(run, &HeadStatistics::entropy) /
           mean_over_heads(run, &HeadStatistics::entropy_limit);
  };
  const auto jacobian = [](const RunRecord& run) { return mean_over_heads(run, &HeadStatistics::jacobian); };
  const auto count = [](const RunRecord& run) {
    return run.parameters > 0 ? static_cast<double>(run.parameters) : not_given;
  };
  const auto memory = [](const RunRecord& run) { return run.peak_memory_bytes; };
  const auto seconds = [](const RunRecord& run) { return run.seconds; };
  const auto below = [](int exponent) {
    return [exponent](const RunRecord& run) { return run.weights.share_below(exponent); };
  };
  return {{"training cost", of_each(runs, total_flops), readable_flops},
          {speed_label(runs.front()) + " (median)", of_each(runs, median_speed), with_digits(4)},
          {"peak memory of tensors", of_each(runs, memory), readable_bytes},
          {"parameters", of_each(runs, count), with_digits(4)},
          {"time", of_each(runs, seconds), readable_duration},
          {"entropy, share of its limit", of_each(runs, entropy_share), per_cent},
          {"Jacobian of the weights ½‖∂p/∂z‖₁, mean", of_each(runs, jacobian), with_digits(3)},
          {"weights below 10⁻³", of_each(runs, below(-3)), per_cent},
          {"weights below 10⁻⁷", of_each(runs, below(-7)), per_cent}};
}

double best_of(const TotalsRow& row) {
  const auto [least, most] = drawable_range(row.values, AxisScale::linear);
  return row.best == TotalsRow::Best::none ? not_given : row.best == TotalsRow::Best::least ? least : most;
}

std::string row_html(const std::string& label, const std::vector<std::string>& cells) {
  std::string html = fmt::format(R"(<tr><th scope="row">{}</th>)", escape_html(label));
  for (const std::string& cell : cells) html += fmt::format("<td>{}</td>", escape_html(cell));
  return html + "</tr>";
}

/// Replaces hyphens by minus signs, which are as wide as plus signs.
std::string typeset(std::string text) {
  for (size_t at = 0; (at = text.find('-', at)) != text.npos; at += 3) text.replace(at, 1, "−");
  return text;
}

/// The rows of one figure: the means, and the differences to the first method.
std::string means_rows(const std::vector<RunRecord>& runs, const Figure& figure) {
  std::vector<std::string> means, counts, differences, verdicts, pairs;
  const auto all = means_over_seeds(runs, figure.of);
  for (size_t i = 0; i < all.size(); ++i) {
    means.push_back(typeset(interval_text(all[i].mean, figure.format)));
    counts.push_back(fmt::format("{}", all[i].mean.count));
    const bool compared = all[i].difference.count > 0;
    differences.push_back(compared ? typeset(interval_text(all[i].difference, signed_format(figure.format)))
                                   : "–");
    verdicts.push_back(compared ? verdict(all[i].difference) : "–");
    pairs.push_back(compared ? fmt::format("{}", all[i].difference.count) : "–");
  }
  std::string html = row_html(figure.name + ", mean", means) + row_html("runs", counts);
  if (all.size() < 2) return html;
  return html + row_html("difference to " + all.front().method, differences) +
         row_html("which is", verdicts) + row_html("pairs of runs with one seed", pairs);
}

}  // namespace

int method_index(const std::vector<RunRecord>& runs, const RunRecord& run) {
  const auto methods = methods_of(runs);
  return static_cast<int>(std::find(methods.begin(), methods.end(), method_of(run)) - methods.begin());
}

std::vector<std::pair<int, std::string>> run_columns(const std::vector<RunRecord>& runs) {
  std::vector<std::pair<int, std::string>> columns;
  for (const RunRecord& run : runs) columns.emplace_back(method_index(runs, run), run.name);
  return columns;
}

std::string totals_table(const std::vector<std::pair<int, std::string>>& columns, const std::string& rows) {
  std::string html = R"(<div class="scroll"><table class="totals"><thead><tr><td></td>)";
  for (const auto& [index, name] : columns)
    html += fmt::format(R"(<th scope="col"><i class="swatch disc {}" style="{}"></i>{}</th>)",
                        css_class(categorical_style(index)), color_style(categorical_color(index)),
                        escape_html(name));
  return html + "</tr></thead><tbody>" + rows + "</tbody></table></div>";
}

std::string means_card(const std::vector<RunRecord>& runs) {
  if (!has_seeds(runs)) return "";
  std::vector<std::pair<int, std::string>> columns;
  for (const std::string& method : methods_of(runs))
    columns.emplace_back(static_cast<int>(columns.size()), method);
  std::string rows;
  for (const Figure& figure : figures_of(runs)) rows += means_rows(runs, figure);
  return card(
      "Means over seeds", totals_table(columns, rows),
      fmt::format(
          "In brackets are 95 % intervals of the mean, from {} bootstrap resamples. A difference is the "
          "mean over pairs of runs with the same seed, which see the same batches. If its interval "
          "contains 0, the verdict is none. By chance, all differences of <i>n</i> pairs have the same sign "
          "in 2 of 2<sup><i>n</i></sup> cases, so fewer than six pairs show less than their interval says.",
          readable_number(kResamples, 5)),
      "wide");
}

std::string totals_card(const std::vector<RunRecord>& runs) {
  std::string rows;
  std::vector<TotalsRow> all = result_rows(runs);
  for (TotalsRow& row : other_rows(runs)) all.push_back(std::move(row));
  for (const TotalsRow& row : all) {
    if (std::all_of(row.values.begin(), row.values.end(), [](double value) { return std::isnan(value); }))
      continue;
    const double best = best_of(row);
    rows += fmt::format(R"(<tr><th scope="row">{}</th>)", escape_html(row.label));
    for (const double value : row.values)
      rows += fmt::format("<td{}>{}</td>", value == best ? R"( class="best")" : "",
                          escape_html(row.format(value)));
    rows += "</tr>";
  }
  return card(
      "Totals", totals_table(run_columns(runs), rows),
      has_seeds(runs)
          ? "The best value of each result is marked."
          : "The best value of each result is marked. Runs of one method with different seeds differ, too: "
            "only several seeds show whether a method is better.",
      "wide");
}

}  // namespace vitrine::nn::report
