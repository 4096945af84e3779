// Means of methods over seeds, and differences between methods. The page and programs share this
// code.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "nn/metrics/bootstrap.h"
#include "nn/report/run.h"

namespace vitrine::nn::report {

/// A figure of each run, to be compared.
struct Figure {
  std::string name;  ///< "validation loss"
  std::function<double(const RunRecord&)> of;
  std::string format;  ///< see nn::formatted
};

/// The final validation loss, then the last value of each metric that every run has.
std::vector<Figure> figures_of(const std::vector<RunRecord>& runs);

/// The figure of a method over its seeds.
struct MethodMeans {
  std::string method;
  MeanInterval mean;
  /// The mean difference to the first method, over pairs of runs with the same seed. The two runs
  /// of a pair see the same batches, so most of the effect of the seed cancels.
  MeanInterval difference;
};

/// Returns one entry per method, in the order of the runs. Runs without the figure are skipped. See
/// bootstrap_mean.
std::vector<MethodMeans> means_over_seeds(const std::vector<RunRecord>& runs,
                                          const std::function<double(const RunRecord&)>& figure);

/// Whether any method has several runs.
bool has_seeds(const std::vector<RunRecord>& runs);

/// "-0.0123 [-0.0200, -0.0050]"; only the mean if there is no interval; "–" if there is no value.
std::string interval_text(const MeanInterval& interval, const std::string& format);

/// The format of a difference of values with this format: the same with a sign.
std::string signed_format(const std::string& format);

/// "none" if the interval contains 0, "too few seeds" if there is no interval, otherwise "lower" or
/// "higher".
std::string verdict(const MeanInterval& difference);

/// The lines of a summary: means of methods with several seeds, and differences to the first
/// method. "" if there are none.
std::string means_text(const std::vector<RunRecord>& runs);

// Shared with the page.

/// Its method, or its name if it has no method
const std::string& method_of(const RunRecord& run);
std::vector<std::string> methods_of(const std::vector<RunRecord>& runs);
double final_validation_loss(const RunRecord& run);
/// The run of the first method with the same seed; if there is none, the first run.
const RunRecord& reference_of(const std::vector<RunRecord>& runs, const RunRecord& run);

}  // namespace vitrine::nn::report
