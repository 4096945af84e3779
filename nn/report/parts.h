// The pieces from which report.cpp builds the page.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "nn/report/charts/chart.h"
#include "nn/report/report.h"
#include "nn/report/seeds.h"

namespace vitrine::nn::report {

/// Style sheet and script of every page, from report.css and the .js files. They contain no text of
/// a run.
std::string report_style();
std::string report_script();

/// Title and subtitle of a page. The browser tab shows both.
struct PageHeading {
  std::string title, subtitle;  // empty subtitle: none
};

/// A whole page around `body` (HTML). `runs` is the data of the script: map_data of each run.
std::string html_page(const PageHeading& heading, const std::string& body, const nlohmann::json& runs);

/// Value ranges over all runs, so that charts of different runs have the same axes. NaN if there is
/// no value.
struct SharedRanges {
  std::pair<double, double> layer_gradients, path_gradients, learning_rate, speed;
  std::pair<double, double> head_gradients;
  double jacobian_high = not_given;
};
SharedRanges shared_ranges(const std::vector<RunRecord>& runs);

/// The section of one run, from its loss curve to its settings.
std::string run_section(const RunRecord& run, int index, const SharedRanges& ranges);

/// The comparison of several runs on the same axes: loss, totals, gradients, distribution of
/// weights, samples, and the settings that differ.
std::string comparison_section(const std::vector<RunRecord>& runs);

/// The losses of all runs over the operations that training has cost; "" if no run has counted
/// them.
std::string cost_card(const std::vector<RunRecord>& runs);

/// The difference of each run's loss to that of the first run, over steps.
std::string difference_card(const std::vector<RunRecord>& runs);

/// Gradient norms of the layers by depth, one line per run; "" if no model has several layers.
std::string depth_card(const std::vector<RunRecord>& runs);

/// Means over seeds, and differences between methods; "" if no method has several runs.
std::string means_card(const std::vector<RunRecord>& runs);

/// The figures of all runs, one column per run.
std::string totals_card(const std::vector<RunRecord>& runs);

/// A table with one column per name. A column has the colour of the method with the given index.
std::string totals_table(const std::vector<std::pair<int, std::string>>& columns, const std::string& rows);

/// The index that determines the colour of a run. All runs of a method have the same index.
int method_index(const std::vector<RunRecord>& runs, const RunRecord& run);
std::vector<std::pair<int, std::string>> run_columns(const std::vector<RunRecord>& runs);

/// The place where the script shows attention maps of two runs side by side; "" if fewer than two
/// runs have maps.
std::string map_pair(const std::vector<RunRecord>& runs);

/// The geometric mean of several series at each step. The series must have the same steps.
Series geometric_mean(const std::vector<const Series*>& group, const std::string& name);

/// The main figures of one run, as tiles.
std::string summary_tiles(const RunRecord& run);

/// The place where the script shows the attention maps of run `index`, or a note if there are none.
std::string map_viewer(const RunRecord& run, int index);

/// The attention maps of a run for the script: {"name": …, "labels": [[token, …], …], "maps":
/// [{layer, head, queries, keys, codes}]}. `queries` and `keys` are indices into labels. See
/// encode_weights.
nlohmann::json map_data(const RunRecord& run);

/// Encodes each weight as two characters of the base-64 alphabet; the code is c = 64·first +
/// second. 0 is exactly 0, and 4095 is NaN. c in 1 … 4094 is 10^(10·(c − 4094)/4093): from 10⁻¹⁰
/// (or less) to 1, with an error of at most 0.3 %.
std::string encode_weights(const std::vector<float>& weights);

/// A card: heading (escaped; empty: none), content and explanation (HTML).
std::string card(const std::string& heading, const std::string& content, const std::string& explanation,
                 const std::string& css_class = "");

/// The prompt and the sample, as preformatted text.
std::string sample_text(const RunRecord& run);

/// A table of texts, as an HTML table of this class.
std::string text_table(const TextTable& table, const std::string& css_class);

/// The cards of what the model does with single examples: texts shaded by attention, the confusion
/// matrix, shaded tables and the examples. "" if the record has none.
std::string result_cards(const RunRecord& run);

/// A two-column table; all text is escaped.
std::string settings_table(const std::vector<std::pair<std::string, std::string>>& settings);

// Figures that both sections use.

double median_speed(const RunRecord& run);
double total_flops(const RunRecord& run);  ///< of all steps; NaN if they were not counted
bool has_attention(const RunRecord& run);
std::string loss_label(const RunRecord& run);   ///< "loss, nats per token"
std::string speed_label(const RunRecord& run);  ///< "tokens per second"

inline const Axis kSteps = {.label = "step", .whole = true};

/// The mean of the series over a window around each step; the window extends one hundredth of the
/// run to each side. The result has the given name.
Series smoothed(const Series& series, const std::string& name);

/// Adds a noisy series as a faint line below its smoothed line. Both share the legend entry
/// `series.name`.
void add_with_trend(std::vector<Line>& lines, const Series& series, const Color& color);

/// The three charts of gradients with respect to Q, K and V, side by side on the same axes.
struct PathLines {
  std::vector<Line> q, k, v;
};
std::string path_charts(const PathLines& lines, const std::pair<double, double>& range,
                        const std::string& legend_title);

/// A histogram of log₁₀ of the weights of one or several runs, with marks at 1e-3 and 1e-7.
std::string weight_histogram(const std::vector<RunRecord>& runs, int first_color);

/// The mean of a figure over heads, without NaN.
double mean_over_heads(const RunRecord& run, double HeadStatistics::*figure);

}  // namespace vitrine::nn::report
