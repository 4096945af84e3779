// The record of a run: what training measures and the report shows. Nothing here draws.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "nn/attention/statistics.h"
#include "nn/report/series.h"

namespace vitrine::nn::report {

/// Norm of the loss's gradient with respect to the projected queries, keys and values of one
/// attention, over steps.
struct PathGradients {
  std::string name;
  Series q, k, v;
};

/// What one attention head does on a batch of validation text.
struct HeadStatistics : HeadFigures {
  int layer = 0, head = 0;
};

/// The weights of one head on one text: weights[i * key_labels.size() + j] is how much query i
/// takes from key j.
struct AttentionMap {
  int layer = 0, head = 0;
  std::vector<std::string> query_labels, key_labels;  // tokens, any bytes
  // query_labels.size() × key_labels.size(), row-major
  std::vector<float> weights;
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

/// What a page says of a run's task. The words are plain text.
struct TaskWords {
  std::string item = "example";  ///< what the loss is the mean of; its plural has an s
  std::string loss_unit = {};    ///< "nats per token"; empty: none is stated
  std::string loss_meaning = "The loss, of which training makes less.";  ///< a sentence or two
  int64_t classes = 0;       ///< of the targets; guessing has the loss ln(classes). 0: not stated
  bool writes_text = false;  ///< a trained model writes a sample
};

/// What a metric of the task (nn/metrics/metric.h) has given.
struct MetricValues {
  std::string name;
  bool more_is_better = true;
  std::string format;  ///< see nn::formatted
  Series values;       ///< over steps
  double last() const { return values.y.empty() ? not_given : values.y.back(); }
};

/// The record of one training run: its settings, its losses and other values over steps, and what
/// was measured after training. The Trainer fills it; write_report shows it. The report leaves out
/// what is empty or NaN, with a note where a reader would miss it.
struct RunRecord {
  std::string name;  // "laser+qk_norm, seed 2"
  // "laser+qk_norm": what runs that differ in nothing but the seed share; empty: the name
  std::string method;
  std::string seed;  // makes pairs of runs of two methods; empty: not stated
  TaskWords words;
  std::vector<std::pair<std::string, std::string>> settings;

  // Over optimizer steps.
  Series train_loss, validation_loss;
  Series learning_rate, speed;                   // speed: items a second, see TaskWords
  std::vector<MetricValues> metrics;             // of the validation split
  std::vector<Series> grad_norm_by_layer;        // one per layer, in order
  std::vector<PathGradients> grad_norm_by_path;  // one per attention, in order

  // Looked at when training has ended.
  std::vector<HeadStatistics> heads;
  std::vector<AttentionMap> maps;
  WeightDistribution weights;
  std::string prompt, sample;  // the sample without the prompt that it continues

  // Totals.
  // Over the whole validation split; else the last of validation_loss
  double final_validation_loss = not_given;
  double peak_memory_bytes = not_given;  // in tensors, while training
  double seconds = not_given;
  int64_t parameters = 0;  // 0: not stated
};

}  // namespace vitrine::nn::report
