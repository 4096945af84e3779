// What learn_preferences prints, and its page.
#pragma once

#include <numeric>
#include <string>
#include <vector>

#include "examples/model_runs.h"
#include "examples/print_table.h"
#include "nn/data/synthetic/preferences.h"
#include "nn/report/page.h"
#include "nn/report/run.h"

namespace vitrine::examples {

/// Means over the answers of a policy to held-out prompts.
struct Judgement {
  double reward = 0, learned = 0;
  /// The share of answers that are better than the imitation's; equal ones count half
  double wins = 0;
  double divergence = 0;  ///< of log π − log π_imitation: KL(policy‖imitation)
};

struct PolicyRun {
  std::string name;
  double beta = 0;
  Judgement last = {};
  /// Its last four metrics are those of Judgement
  nn::report::RunRecord record = {};
  std::vector<std::vector<std::string>> answers = {};  ///< prompt, answer and true reward
};

struct PreferenceRuns {
  nn::report::RunRecord imitation, rewards;
  /// The share of held-out pairs that the reward model orders by their true rewards
  double right_order = 0;
  std::vector<PolicyRun> policies;  ///< the first one is the imitation, which has no record
};

inline nn::report::TextTable table_of(const PreferenceRuns& runs) {
  nn::report::TextTable table{.title = "Answers to held-out prompts",
                              .columns = {"policy", "true reward", "learned reward", "win rate, %",
                                          "KL, nats", "best reward", "its KL", "GFLOP"}};
  for (const PolicyRun& run : runs.policies) {
    const auto& [reward, learned, wins, divergence] = run.last;
    auto& row = table.rows.emplace_back(
        std::vector{run.name, fmt::format("{:.2f}", reward), fmt::format("{:.2f}", learned),
                    fmt::format("{:.1f}", 100 * wins), fmt::format("{:.2f}", divergence)});
    if (run.beta > 0) {
      const auto best = nn::synthetic::best_policy(run.beta);
      row.insert(row.end(), {fmt::format("{:.2f}", best.reward), fmt::format("{:.2f}", best.divergence)});
    } else {
      row.insert(row.end(), {"–", "–"});
    }
    const auto& flops = (run.record.name.empty() ? runs.imitation : run.record).flops.y;
    row.push_back(fmt::format("{:.1f}", 1e-9 * std::accumulate(flops.begin(), flops.end(), 0.0)));
  }
  return table;
}

/// A metric of all policies over steps.
inline nn::report::LineChart chart_of(const PreferenceRuns& runs, const std::string& metric,
                                      const std::string& label) {
  nn::report::LineChart chart{
      .title = metric + " over training", .x = {.label = "step", .whole = true}, .y = {label}};
  for (const PolicyRun& run : runs.policies)
    for (const nn::report::MetricValues& values : run.record.metrics)
      if (values.name == metric) {
        chart.lines.push_back({values.values});
        chart.lines.back().series.name = run.name;
      }
  return chart;
}

/// How much true reward each policy has for its distance from the imitation, and what is possible.
inline nn::report::LineChart frontier_of(const PreferenceRuns& runs) {
  nn::report::LineChart chart{.title = "True reward by distance from the imitation",
                              .x = {"KL(policy‖imitation), nats per answer"},
                              .y = {"true reward"}};
  nn::report::Series best{"the best policies", {}, {}};
  for (double beta = 20; beta > 0.05; beta *= 0.9) {
    const auto policy = nn::synthetic::best_policy(beta);
    best.add(policy.divergence, policy.reward);
  }
  for (const PolicyRun& run : runs.policies) {
    nn::report::Series path{run.name, {}, {}};
    const auto& metrics = run.record.metrics;
    for (size_t i = 0; !metrics.empty() && i < metrics.back().values.y.size(); ++i)
      path.add(metrics.back().values.y[i], metrics[metrics.size() - 4].values.y[i]);
    if (metrics.empty()) path.add(run.last.divergence, run.last.reward);
    chart.lines.push_back({.series = path, .style = nn::report::LineStyle::dots});
  }
  chart.lines.push_back({.series = best, .style = nn::report::LineStyle::dashed});
  return chart;
}

inline nn::report::LineChart losses_of(const nn::report::RunRecord& run, const std::string& title) {
  return {.title = title,
          .x = {.label = "step", .whole = true},
          .y = {run.words.loss_unit},
          .lines = {{run.train_loss}, {run.validation_loss}}};
}

/// Prints the table, and makes the page.
inline nn::report::Page page_of(const PreferenceRuns& runs, const std::string& title) {
  using namespace nn::report;
  const TextTable table = table_of(runs);
  print_table(table);
  std::string summary;
  for (const PolicyRun& run : runs.policies) summary += fmt::format("; {} {:.2f}", run.name, run.last.reward);
  say(stdout, "the reward model orders {:.1f} % of held-out pairs by their true rewards\ntrue reward{}\n",
      100 * runs.right_order, summary);
  LineChart ordered{.title = "Held-out pairs whose chosen answer has the larger learned reward",
                    .x = {.label = "step", .whole = true},
                    .y = {"share of the pairs"}};
  if (!runs.rewards.metrics.empty()) ordered.lines = {{runs.rewards.metrics[0].values}};
  TextTable answers{.title = "Answers", .columns = {"policy", "prompt", "answer", "true reward"}};
  for (const PolicyRun& run : runs.policies)
    for (const auto& row : run.answers) {
      answers.rows.push_back({run.name});
      answers.rows.back().insert(answers.rows.back().end(), row.begin(), row.end());
    }
  return {
      .title = title,
      .sections = {
          {.title = "Imitation and reward model",
           .figures = {{losses_of(runs.imitation, "Loss of the imitation")},
                       {losses_of(runs.rewards, "Loss of the reward model"),
                        "Guests choose the worse answer at times, so the loss stays above 0."},
                       {ordered, fmt::format("{:.1f} % of the pairs are ordered by their true rewards.",
                                             100 * runs.right_order)}}},
          {.title = "Policies",
           .figures =
               {{table,
                 "Best reward and its KL are those of the policy with the largest "
                 "reward − β·KL, which is known for this data. Without a KL penalty there is none."},
                {frontier_of(runs),
                 "Dots are evaluations during training. The dashed line is the largest possible reward at each "
                 "distance, if the imitation is perfect. Means over sampled answers scatter about it."},
                {chart_of(runs, "true reward", "true reward")},
                {chart_of(runs, "learned reward", "learned reward")},
                {chart_of(runs, "win rate", "share of answers better than the imitation's")},
                {chart_of(runs, "KL", "KL(policy‖imitation), nats per answer")}}},
          {.title = "Answers to held-out prompts", .figures = {{answers}}}}};
}

/// Writes the record of each run and the page.
inline void write_results(const RunSettings& run, const std::string& title, const PreferenceRuns& runs) {
  write_record(run, runs.imitation);
  write_record(run, runs.rewards);
  for (const PolicyRun& policy : runs.policies)
    if (!policy.record.name.empty()) write_record(run, policy.record);
  nn::report::write_page(run.out + "/report.html", page_of(runs, title));
}

}  // namespace vitrine::examples
