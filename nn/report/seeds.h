// What methods reach on average over seeds, and how they differ: one rule for the page and for
// programs.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "nn/metrics/bootstrap.h"
#include "nn/report/run.h"

namespace vitrine::nn::report {

/// A number of each run that a comparison is about.
struct Figure {
  std::string name;  ///< "validation loss"
  std::function<double(const RunRecord&)> of;
  std::string format;  ///< see nn::formatted
};

/// The final validation loss, then the last value of each metric that all runs have.
std::vector<Figure> figures_of(const std::vector<RunRecord>& runs);

/// A method over its seeds.
struct MethodMeans {
  std::string method;
  MeanInterval mean;
  /// The mean difference to the first method, over runs of both with one seed. Such runs see
  /// the same batches, so most of what seeds change is in both.
  MeanInterval difference;
};

/// One entry a method, in the order of the runs. Runs without the figure do not count. See
/// bootstrap_mean.
std::vector<MethodMeans> means_over_seeds(const std::vector<RunRecord>& runs,
                                          const std::function<double(const RunRecord&)>& figure);

/// Whether a method has several runs.
bool has_seeds(const std::vector<RunRecord>& runs);

/// "-0.0123 [-0.0200, -0.0050]"; without interval where there is none; "–" for no value.
std::string interval_text(const MeanInterval& interval, const std::string& format);

/// A format of values as one of their differences, with a sign.
std::string signed_format(const std::string& format);

/// "none" where the interval holds 0; "too few seeds" without an interval; else "lower" or
/// "higher".
std::string verdict(const MeanInterval& difference);

/// Lines with the means of methods that have several seeds, and their differences to the first
/// one; "" where there are none.
std::string means_text(const std::vector<RunRecord>& runs);

// Shared with the page.

const std::string& method_of(const RunRecord& run);  ///< its method, or else its name
std::vector<std::string> methods_of(const std::vector<RunRecord>& runs);
double final_validation_loss(const RunRecord& run);
/// The run of the first method with the same seed; else the first run.
const RunRecord& reference_of(const std::vector<RunRecord>& runs, const RunRecord& run);

}  // namespace vitrine::nn::report
