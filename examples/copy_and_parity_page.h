// The report of copy_and_parity: a table and a chart for each task.
#pragma once

#include <string>
#include <vector>

#include "examples/copy_and_parity_tasks.h"
#include "examples/print_table.h"
#include "nn/report/html.h"
#include "nn/report/page.h"
#include "nn/report/run.h"

namespace vitrine::examples {

/// The first evaluated step at which 99 % of the answers are right.
inline std::string steps_to_99(const nn::report::Series& accuracy) {
  for (size_t i = 0; i < accuracy.y.size(); ++i)
    if (accuracy.y[i] >= 0.99) return fmt::format("{:.0f}", accuracy.x[i]);
  return "–";
}

inline nn::report::Section section_of(const Problem& p, const std::vector<nn::report::RunRecord>& records) {
  nn::report::TextTable table{.title = p.name, .columns = {"mechanism"}};
  nn::report::LineChart chart{
      .title = p.name + ": accuracy", .x = {.label = "step", .whole = true}, .y = {"share of right answers"}};
  for (const nn::report::MetricValues& metric : records.at(0).metrics)
    table.columns.push_back(metric.name + ", %");
  for (const char* column : {"steps to 99 %", "parameters", "operations", "peak memory", "time"})
    table.columns.emplace_back(column);
  for (const nn::report::RunRecord& run : records) {
    auto& row = table.rows.emplace_back(std::vector{run.name});
    for (const nn::report::MetricValues& metric : run.metrics)
      row.push_back(fmt::format("{:.1f}", 100 * metric.last()));
    double operations = 0;
    for (const double step : run.flops.y) operations += step;
    row.insert(row.end(),
               {steps_to_99(run.metrics[0].values), fmt::format("{}", run.parameters),
                nn::report::readable_flops(operations), nn::report::readable_bytes(run.peak_memory_bytes),
                nn::report::readable_duration(run.seconds)});
    nn::report::Series line = run.metrics[0].values;
    line.name = run.name;
    chart.lines.push_back({line});
  }
  print_table(table);
  return {.title = p.name,
          .paragraphs = {{"Task", p.what}, {"Expectation", p.expectation}},
          .figures = {{table, "On held-out sequences. Time and memory are those of training."}, {chart}}};
}

}  // namespace vitrine::examples
