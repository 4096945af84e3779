// The pieces of which report.cpp builds the page.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "nn/report/charts/chart.h"
#include "nn/report/report.h"
#include "nn/report/seeds.h"

namespace vitrine::nn::report {

/// Style sheet and script of every page, from report.css and the .js files; neither contains
/// text of a run.
std::string report_style();
std::string report_script();

/// Title and subtitle of a page; the browser's tab shows both.
struct PageHeading {
  std::string title, subtitle;  // subtitle "": none
};

/// A whole page around `body` (HTML). `runs` is what the script gets: map_data of each run.
std::string html_page(const PageHeading& heading, const std::string& body, const nlohmann::json& runs);

/// Ranges that all runs share, so that their charts can be compared by eye. NaN where there is no
/// value.
struct SharedRanges {
  std::pair<double, double> layer_gradients, path_gradients, learning_rate, speed;
  std::pair<double, double> head_gradients;
  double jacobian_high = not_given;
};
SharedRanges shared_ranges(const std::vector<RunRecord>& runs);

/// One run from its loss curve to its settings.
std::string run_section(const RunRecord& run, int index, const SharedRanges& ranges);

/// Several runs on the same axes: loss, totals, gradients, distribution of weights, samples,
/// settings that differ.
std::string comparison_section(const std::vector<RunRecord>& runs);

/// The differences of losses to the first run, over steps.
std::string difference_card(const std::vector<RunRecord>& runs);

/// Gradient norms of the layers by depth, a line a run; "" where no model has several layers.
std::string depth_card(const std::vector<RunRecord>& runs);

/// Means over seeds, and differences between methods; "" where no method has several runs.
std::string means_card(const std::vector<RunRecord>& runs);

/// The numbers of all runs, a column a run.
std::string totals_card(const std::vector<RunRecord>& runs);

/// A table with a column for each of the names, which have the colours of the methods with
/// these indices.
std::string totals_table(const std::vector<std::pair<int, std::string>>& columns, const std::string& rows);

/// What gives a run its colour, which all runs of a method share.
int method_index(const std::vector<RunRecord>& runs, const RunRecord& run);
std::vector<std::pair<int, std::string>> run_columns(const std::vector<RunRecord>& runs);

/// Where the script puts attention maps of two runs side by side; "" where fewer have maps.
std::string map_pair(const std::vector<RunRecord>& runs);

/// Of a group of series on the same steps, the geometric mean of the values at each step.
Series geometric_mean(const std::vector<const Series*>& group, const std::string& name);

/// Headline numbers of one run as tiles.
std::string summary_tiles(const RunRecord& run);

/// Where the script puts the attention maps of run `index`; a note if there are none.
std::string map_viewer(const RunRecord& run, int index);

/// The attention maps of a run for the script: {"name": …, "labels": [[token, …], …], "maps":
/// [{layer, head, queries, keys, codes}]}, `queries` and `keys` being indices into labels. See
/// encode_weights.
nlohmann::json map_data(const RunRecord& run);

/// Each weight as two characters of the base-64 alphabet, 64·first + second: 0 is exactly 0, 4095
/// is NaN, and c in 1 … 4094 is 10^(10·(c − 4094)/4093), so 10⁻¹⁰ (or less) to 1, to within 0.3 %.
std::string encode_weights(const std::vector<float>& weights);

/// A card with heading (escaped; empty: none), content and the sentences that explain it (HTML).
std::string card(const std::string& heading, const std::string& content, const std::string& explanation,
                 const std::string& css_class = "");

/// The sample after its prompt, as preformatted text.
std::string sample_text(const RunRecord& run);

/// A two-column table; all text is escaped.
std::string settings_table(const std::vector<std::pair<std::string, std::string>>& settings);

// Figures that both sections need.

double median_speed(const RunRecord& run);
bool has_attention(const RunRecord& run);
std::string loss_label(const RunRecord& run);   ///< "loss, nats per token"
std::string speed_label(const RunRecord& run);  ///< "tokens per second"

inline const Axis kSteps = {.label = "step", .whole = true};

/// The series as the mean over the hundredth of the run on each side of a step. Named as given.
Series smoothed(const Series& series, const std::string& name);

/// Adds a noisy series as a faint line under its smoothed one; both share the legend's entry
/// `series.name`.
void add_with_trend(std::vector<Line>& lines, const Series& series, const Color& color);

/// The three charts of gradients along Q, K and V, side by side on the same axes.
struct PathLines {
  std::vector<Line> q, k, v;
};
std::string path_charts(const PathLines& lines, const std::pair<double, double>& range,
                        const std::string& legend_title);

/// Histogram of log₁₀ weights of one run or several, marks at 1e-3 and 1e-7 included.
std::string weight_histogram(const std::vector<RunRecord>& runs, int first_color);

/// Mean over heads of a figure; NaN ones do not count.
double mean_over_heads(const RunRecord& run, double HeadStatistics::*figure);

}  // namespace vitrine::nn::report
