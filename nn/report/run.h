// The record of a run: what training measures and the report shows. This file draws nothing.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "nn/attention/statistics.h"
#include "nn/report/series.h"
#include "nn/report/text_table.h"

namespace vitrine::nn::report {

/// Norms of the gradients of the loss with respect to the projected queries, keys and values of one
/// attention, over steps.
struct PathGradients {
  std::string name;
  Series q, k, v;
};

/// The statistics of one attention head on a validation batch.
struct HeadStatistics : HeadFigures {
  int layer = 0, head = 0;
};

/// The attention weights of one head on one text. weights[i * key_labels.size() + j] is the weight
/// of key j for query i.
struct AttentionMap {
  int layer = 0, head = 0;
  std::vector<std::string> query_labels, key_labels;  // tokens, any bytes
  // query_labels.size() × key_labels.size(), row-major
  std::vector<float> weights;
};

/// A text whose words have weights, such as those of the attention that pools them.
struct WeightedText {
  std::string label;  // precedes the text
  std::vector<std::string> words;
  std::vector<float> weights;  // one per word, ≥ 0
  double weight = not_given;   // of the whole text, in [0, 1]; not given: it has none
};

/// How often items of each class were taken for each class.
struct ConfusionMatrix {
  std::vector<std::string> classes;
  // classes.size() × classes.size(), row-major: a row per true class, a column per chosen class
  std::vector<double> counts;
};

/// Numbers that the report shades, such as a spectrogram or the load of experts.
struct ShadedTable {
  std::string title = {}, explanation = {};
  std::string row_title = {}, column_title = {};  // "layer", "expert"
  std::vector<std::string> rows = {}, columns = {};
  std::vector<double> values = {};  // rows × columns, row-major; NaN: an empty cell
  bool is_picture = false;          // small cells without text, as pixels
};

/// Histogram of log₁₀ of the attention weights: 4 bins per power of ten from 10⁻¹² to 1.
struct WeightDistribution {
  static constexpr int bins_per_decade = 4, decades = 12;
  std::array<double, bins_per_decade * decades> counts{};
  double below = 0;         // weights below 10⁻¹², including zeros
  double not_a_number = 0;  // excluded from all shares

  /// Counts one weight. Do not count masked weights: the model did not choose them.
  void add(float weight);
  void add(const WeightDistribution& others);
  double total() const;
  /// The share of weights below 10^exponent, −12 ≤ exponent ≤ 0; NaN if nothing was counted.
  double share_below(int exponent) const;
};

/// The words for the task on the page, as plain text.
struct TaskWords {
  std::string item = "example";  ///< an item of the mean loss; its plural ends in s
  std::string loss_unit = {};    ///< "nats per token"; empty: not stated
  std::string loss_meaning = "The loss, which training reduces.";  ///< a sentence or two
  /// Number of classes of the targets, 0: not stated; guessing has the loss ln(classes)
  int64_t classes = 0;
  bool writes_text = false;  ///< a trained model can write a sample
};

/// The values of a metric of the task (nn/metrics/metric.h).
struct MetricValues {
  std::string name;
  bool more_is_better = true;
  std::string format;  ///< see nn::formatted
  Series values;       ///< over steps
  double last() const { return values.y.empty() ? not_given : values.y.back(); }
};

/// The record of one training run: its settings, its losses and other values over steps, and
/// measurements after training. The Trainer fills it; write_report shows it. The report omits what
/// is empty or NaN, with a note if a reader would miss it.
struct RunRecord {
  std::string name;  // "laser+qk_norm, seed 2"
  // "laser+qk_norm": shared by runs that differ only in the seed; empty: the name
  std::string method;
  std::string seed;  // pairs the runs of two methods; empty: not stated
  TaskWords words;
  std::vector<std::pair<std::string, std::string>> settings;

  // Over optimizer steps.
  Series train_loss, validation_loss;
  Series learning_rate, speed;                   // speed: items per second, see TaskWords
  Series flops;                                  // operations of each step, see core/flops.h
  std::vector<MetricValues> metrics;             // on the validation split
  std::vector<Series> grad_norm_by_layer;        // one per layer, in order
  std::vector<PathGradients> grad_norm_by_path;  // one per attention, in order

  // Measured after training.
  std::vector<HeadStatistics> heads;
  std::vector<AttentionMap> maps;
  WeightDistribution weights;
  std::string prompt, sample;  // the sample does not include the prompt
  std::vector<WeightedText> texts;
  ConfusionMatrix confusion;
  std::vector<ShadedTable> tables;
  TextTable examples;  // items of the validation data, and what the model makes of them

  // Totals.
  // Over the whole validation split; if not given, the last value of validation_loss
  double final_validation_loss = not_given;
  double peak_memory_bytes = not_given;  // of tensors, during training
  double seconds = not_given;
  int64_t parameters = 0;  // 0: not stated
};

}  // namespace vitrine::nn::report
