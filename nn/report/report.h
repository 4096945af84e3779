// The training report: one HTML file that shows a run, or several side by side, and needs nothing but a
// browser.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "nn/attention/statistics.h"
#include "nn/report/charts/chart.h"

namespace vitrine::nn::report {

/// Norm of the loss's gradient with respect to the projected queries, keys and values of one attention, over
/// steps.
struct PathGradients {
  std::string name;
  Series q, k, v;
};

/// What one attention head does on a batch of validation text.
struct HeadStatistics : HeadFigures {
  int layer = 0, head = 0;
};

/// The weights of one head on one text: weights[i * key_labels.size() + j] is how much query i takes from key
/// j.
struct AttentionMap {
  int layer = 0, head = 0;
  std::vector<std::string> query_labels, key_labels;  // tokens, any bytes
  std::vector<float> weights;                         // query_labels.size() × key_labels.size(), row-major
};

/// Histogram of log₁₀ of the attention weights: 4 bins per power of ten from 10⁻¹² to 1.
struct WeightDistribution {
  static constexpr int bins_per_decade = 4, decades = 12;
  std::array<double, bins_per_decade * decades> counts{};
  double below = 0;         // weights under 10⁻¹², zeros included
  double not_a_number = 0;  // left out of every share

  /// Counts one weight. Leave masked ones out: they are no decision of the model.
  void add(float weight);
  void add(const WeightDistribution& others);
  double total() const;
  /// Share of weights below 10^exponent, −12 ≤ exponent ≤ 0; NaN if nothing was counted.
  double share_below(int exponent) const;
};

/// All that the report shows of one run. What stays empty or NaN is left out, with a note where a reader
/// would miss it.
struct RunReport {
  std::string name;  // "laser+qk_norm, seed 2"
  std::string
      method;  // "laser+qk_norm": what runs that differ in nothing but the seed share; empty: the name
  std::vector<std::pair<std::string, std::string>> settings;

  // Over optimizer steps.
  Series train_loss, validation_loss;  // nats per token
  Series learning_rate, tokens_per_second;
  std::vector<Series> grad_norm_by_layer;        // one per layer, in order
  std::vector<PathGradients> grad_norm_by_path;  // one per attention, in order

  // Looked at when training has ended.
  std::vector<HeadStatistics> heads;
  std::vector<AttentionMap> maps;
  WeightDistribution weights;
  std::string prompt, sample;  // the sample without the prompt that it continues

  // Totals.
  double final_validation_loss =
      not_given;                         // over the whole validation split; else the last of validation_loss
  double peak_memory_bytes = not_given;  // in tensors, while training
  double seconds = not_given;
  int64_t parameters = 0;       // 0: not stated
  int64_t vocabulary_size = 0;  // 0: not stated; else ln V marks the loss of guessing
};

/// The page as a string. All text of the runs is escaped; bytes that are not UTF-8 become U+FFFD.
/// The page loads nothing (its content policy forbids it), works without a network and, but for attention
/// maps and tooltips, without scripts. Throws if a series has unequal x and y, or a map's weights do not fit
/// its labels.
std::string render_report(const std::string& title, const std::vector<RunReport>& runs);

/// Writes render_report to `path` through a temporary file beside it, synced and renamed: readers see the old
/// file or the new one, never a part. Throws, naming path and cause, and leaves the old file, if any step
/// fails.
void write_report(const std::string& path, const std::string& title, const std::vector<RunReport>& runs);

}  // namespace vitrine::nn::report
