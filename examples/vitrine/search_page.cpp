#include "examples/vitrine/search_page.h"

#include <algorithm>

#include "nn/report/html.h"
#include "nn/report/page.h"

namespace vitrine::examples {

using namespace nn::report;
using nn::training::SearchAxis, nn::training::TrialResult;

namespace {

TextTable table_of(const std::vector<SearchAxis>& axes, const std::vector<TrialResult>& results,
                   const std::vector<double>& flops) {
  TextTable table{.title = "Trials, the best first", .columns = {"trial"}};
  for (const SearchAxis& axis : axes) table.columns.push_back(axis.option);
  for (const char* column : {"steps", "validation loss", "training cost"}) table.columns.push_back(column);
  for (const size_t i : nn::training::best_first(results)) {
    std::vector<std::string>& row = table.rows.emplace_back();
    row.push_back(std::to_string(i + 1));
    for (const auto& [name, value] : results[i].options) row.push_back(value);
    row.push_back(std::to_string(results[i].steps));
    row.push_back(std::isfinite(results[i].loss()) ? readable_number(results[i].loss(), 5) : "failed");
    row.push_back(readable_flops(flops[i]));
  }
  return table;
}

const std::string& value_of(const TrialResult& result, const std::string& option) {
  const auto found = std::find_if(result.options.begin(), result.options.end(),
                                  [&](const auto& one) { return one.first == option; });
  return found->second;
}

/// The losses at each rung over a number, one colour per rung.
LineChart chart_of(const SearchAxis& axis, const std::vector<int64_t>& rungs,
                   const std::vector<TrialResult>& results) {
  LineChart chart;
  chart.title = "Validation loss by " + axis.option;
  chart.x = {.label = axis.option, .scale = axis.logarithmic ? AxisScale::log : AxisScale::linear};
  chart.y.label = "validation loss";
  for (size_t rung = 0; rung < rungs.size(); ++rung) {
    Series losses{fmt::format("after {} steps", rungs[rung]), {}, {}};
    std::vector<std::pair<double, double>> points;  // the chart joins neighbours
    for (const TrialResult& result : results)
      if (rung < result.losses.size() && std::isfinite(result.losses[rung]))
        points.emplace_back(std::stod(value_of(result, axis.option)), result.losses[rung]);
    std::sort(points.begin(), points.end());
    for (const auto& [value, loss] : points) losses.add(value, loss);
    chart.lines.push_back({.series = losses, .style = LineStyle::dots});
  }
  return chart;
}

/// The best loss of each value, for values that are no numbers.
TextTable best_by_value(const SearchAxis& axis, const std::vector<TrialResult>& results) {
  TextTable table{.title = "The best trial of each " + axis.option,
                  .columns = {axis.option, "trials", "best validation loss"}};
  for (const std::string& value : axis.values) {
    std::vector<TrialResult> own;
    for (const TrialResult& result : results)
      if (value_of(result, axis.option) == value) own.push_back(result);
    const double best = own.empty() ? not_given : own[nn::training::best_first(own).front()].loss();
    table.rows.push_back({value, std::to_string(own.size()), readable_number(best, 5)});
  }
  return table;
}

bool is_numeric(const SearchAxis& axis) {
  double number = 0;
  return std::all_of(axis.values.begin(), axis.values.end(),
                     [&](const std::string& value) { return nn::detail::parse(value, number); });
}

}  // namespace

void write_search_page(const std::string& path, const std::vector<SearchAxis>& axes,
                       const std::vector<int64_t>& rungs, const std::vector<TrialResult>& results,
                       const std::vector<double>& flops) {
  Section section{.title = "Trials"};
  section.paragraphs = {
      {"Method", fmt::format("{} trials, compared after {} steps; only the best go on from one "
                             "comparison to the next.",
                             results.size(), fmt::join(rungs, ", "))}};
  if (rungs.size() == 1)
    section.paragraphs[0].text = fmt::format("{} trials of {} steps.", results.size(), rungs[0]);
  section.figures.push_back({table_of(axes, results, flops)});
  for (const SearchAxis& axis : axes) {
    if (is_numeric(axis))
      section.figures.push_back({chart_of(axis, rungs, results),
                                 "Each dot is a trial. All other options of the search vary, too."});
    else
      section.figures.push_back({best_by_value(axis, results)});
  }
  write_page(path, {.title = "A search with Vitrine", .sections = {section}});
}

}  // namespace vitrine::examples
