// The report of copy_and_parity: a table and a chart for each task.
#pragma once

#include <string>
#include <vector>

#include "examples/copy_and_parity_tasks.h"
#include "examples/print_table.h"
#include "nn/report/html.h"
#include "nn/report/page.h"
#include "nn/report/run.h"
#include "ops/view.h"

namespace vitrine::examples {

/// The first evaluated step at which 99 % of the answers are right.
inline std::string steps_to_99(const nn::report::Series& accuracy) {
  for (size_t i = 0; i < accuracy.y.size(); ++i)
    if (accuracy.y[i] >= 0.99) return fmt::format("{:.0f}", accuracy.x[i]);
  return "–";
}

/// What the experts and the universal stack of a model do with a batch: the load of each expert,
/// and the steps that each position takes. Other models have neither.
inline void inspect_parts(nn::Gpt& model, const nn::Batch& batch, nn::report::RunRecord& record) {
  const Tape::Pause pause;
  std::vector<nn::Routing> routing;
  nn::Halted halted;
  const nn::ModeScope evaluation(model, false);
  model.forward(batch.tensors[0], {.routing = &routing, .halted = &halted});
  nn::report::ShadedTable load = {
      .title = "Load of the experts",
      .explanation = "The share of the tokens of a held-out batch that each expert takes.",
      .row_title = "layer",
      .column_title = "expert"};
  for (const nn::Routing& layer : routing) {
    const auto chosen = layer.experts.values();
    std::vector<double> counts(static_cast<size_t>(model.options().experts.count));
    for (const double expert : chosen)
      counts[static_cast<size_t>(expert)] += 1 / static_cast<double>(chosen.size());
    load.rows.push_back(std::to_string(load.rows.size() + 1));
    load.values.insert(load.values.end(), counts.begin(), counts.end());
    load.columns.clear();
    for (size_t i = 1; i <= counts.size(); ++i) load.columns.push_back(std::to_string(i));
  }
  if (!routing.empty()) record.tables.push_back(load);
  if (!halted.steps.defined()) return;
  nn::report::ShadedTable steps = {
      .title = "Steps until a position halts",
      .explanation = "A row is a held-out sequence. The strongest shade is the most steps.",
      .row_title = "sequence",
      .column_title = "position",
      .is_picture = true};
  const Tensor first = slice(halted.steps, 0, 0, 8);
  for (int64_t i = 1; i <= first.size(0); ++i) steps.rows.push_back(std::to_string(i));
  for (int64_t i = 1; i <= first.size(1); ++i) steps.columns.push_back(std::to_string(i));
  steps.values = first.values();
  record.tables.push_back(steps);
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
