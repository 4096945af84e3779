// What fine_tune prints, and its page.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "examples/print_table.h"
#include "nn/metrics/bootstrap.h"
#include "nn/report/seeds.h"

namespace vitrine::examples {

/// The runs of each way, seed and task: of[way][seed][task]. The name of a run is that of its way.
struct TaskRuns {
  std::vector<std::string> tasks;
  std::vector<std::vector<std::vector<nn::report::RunRecord>>> of;
};

/// The accuracy of one way in per cent: of each seed, by task, with the mean over tasks at the end;
/// and the mean over all runs at each evaluation.
struct WayAccuracy {
  std::vector<std::vector<double>> by_task;
  nn::report::Series curve;
  double seconds = 0, flops = 0;  ///< of all tasks, means over seeds
};

inline WayAccuracy accuracy_of(const std::vector<std::vector<nn::report::RunRecord>>& seeds) {
  const auto& first = seeds[0][0];
  const auto count = static_cast<double>(seeds.size()), tasks = static_cast<double>(seeds[0].size());
  WayAccuracy result{std::vector<std::vector<double>>(seeds[0].size() + 1), {first.name, {}, {}}};
  result.curve.x = first.metrics[0].values.x;
  for (const auto& runs : seeds)  // the curve ends with the shortest run
    for (const auto& run : runs)
      result.curve.x.resize(std::min(result.curve.x.size(), run.metrics[0].values.x.size()));
  result.curve.y.resize(result.curve.x.size());
  for (const auto& runs : seeds) {
    double sum = 0;
    for (size_t t = 0; t < runs.size(); ++t) {
      const auto& values = runs[t].metrics[0].values.y;
      result.by_task[t].push_back(100 * values.back());
      sum += 100 * values.back();
      result.seconds += runs[t].seconds / count;
      for (const double flops : runs[t].flops.y) result.flops += flops / count;
      for (size_t i = 0; i < result.curve.y.size(); ++i)
        result.curve.y[i] += 100 * values[i] / (tasks * count);
    }
    result.by_task.back().push_back(sum / tasks);
  }
  return result;
}

/// Prints the table of the ways, and writes the page.
inline void show(const TaskRuns& runs, const nn::report::RunRecord& masked, const std::string& page) {
  using namespace nn::report;
  TextTable table{.title = "Accuracy on held-out texts in %: means over seeds, and 95 % intervals",
                  .columns = {"way"}};
  table.columns.insert(table.columns.end(), runs.tasks.begin(), runs.tasks.end());
  table.columns.insert(table.columns.end(), {"mean", "trained parameters", "seconds", "GFLOP"});
  LineChart chart{.title = "Mean accuracy on held-out texts",
                  .x = {.label = "step", .whole = true},
                  .y = {"accuracy, %"}};
  std::string summary;
  for (const auto& seeds : runs.of) {
    const WayAccuracy way = accuracy_of(seeds);
    auto& row = table.rows.emplace_back(std::vector{way.curve.name});
    for (const auto& values : way.by_task) row.push_back(interval_text(nn::bootstrap_mean(values), "{:.1f}"));
    row.insert(row.end(), {fmt::format("{}", seeds[0][0].parameters), fmt::format("{:.1f}", way.seconds),
                           fmt::format("{:.1f}", 1e-9 * way.flops)});
    chart.lines.push_back({way.curve});
    summary += fmt::format("{}{} {:.1f} %", summary.empty() ? "" : ", ", way.curve.name,
                           nn::bootstrap_mean(way.by_task.back()).mean);
  }
  print_table(table);
  say(stdout, "held-out texts that are right: {}\n", summary);
  const LineChart losses{.title = "Loss of the masked tokens",
                         .x = {.label = "step", .whole = true},
                         .y = {"nats per masked token"},
                         .lines = {{masked.train_loss}, {masked.validation_loss}}};
  write_page(
      page,
      {.title = "Pretraining and fine-tuning",
       .sections = {
           {.title = "Pretraining on masked tokens", .figures = {{losses}}},
           {.title = "Fine-tuning",
            .figures = {{table, "Seconds and operations are those of all tasks, for one seed."}, {chart}}}}});
}

}  // namespace vitrine::examples
