// Hyperparameter search: which values of options to try, and for how many steps.
//
//   const auto axes = parse_search_axes({"lr=0.0001..0.01", "width=64,128"}, {}, options);
//   const auto trials = random_trials(axes, 27, /*seed=*/1);
//   const auto results = search(trials, halving_rungs(900, 3, 3), 3, evaluate);
#pragma once

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "nn/options.h"

namespace vitrine::nn::training {

/// The values of one option: those of a list, or all in [low, high].
struct SearchAxis {
  std::string option;
  std::vector<std::string> values = {};  ///< empty: a range
  double low = 0, high = 0;
  bool logarithmic = false;  ///< equal ratios are equally likely: a range with 0 < 10·low ≤ high
  bool whole = false;        ///< the option takes whole numbers
};

/// Parses OPTION=VALUE,VALUE and OPTION=LOW..HIGH. A list of values may have been split at its
/// commas, as command lines do: {"width=64", "128"}. A further value may be one of `parts` with a
/// number: {"mixer=standard", "laser+softcap=20"}. Each value is read by its option, so a wrong one
/// is the option's own error. Errors: an unknown or repeated option; one that does not decide
/// results; one that is given already; a range of an option that is no number, or that is empty.
std::vector<SearchAxis> parse_search_axes(const std::vector<std::string>& words,
                                          const std::vector<std::string>& parts, OptionList& options);

/// All combinations; the last axis changes fastest. A range is an error.
std::vector<OptionValues> grid_trials(const std::vector<SearchAxis>& axes);

/// `count` independent draws: uniform from lists and ranges, log-uniform from logarithmic ranges
/// (Bergstra, Bengio 2012). Trial i depends on the seed and i alone, so a longer search begins with
/// the trials of a shorter one. Real numbers have three significant digits.
std::vector<OptionValues> random_trials(const std::vector<SearchAxis>& axes, int64_t count, uint64_t seed);

/// The steps at which successive halving compares trials: rung i of n is at steps/etaⁿ⁻¹⁻ⁱ, rounded
/// up, and the last one at `steps`. One rung: every trial makes all steps. Errors: eta below 2,
/// less than one rung, or two rungs at the same step.
std::vector<int64_t> halving_rungs(int64_t steps, int64_t eta, int64_t rungs);

/// How far a trial has come.
struct TrialResult {
  OptionValues options;
  int64_t steps = 0;                ///< of the last rung it has reached
  std::vector<double> losses = {};  ///< at each rung it has reached; infinite if training failed
  double loss() const { return losses.empty() ? INFINITY : losses.back(); }
};

/// Successive halving (Jamieson, Talwalkar 2016): all trials train up to the first rung, the best
/// 1/eta of them, rounded up, up to the next, and so on. Of equal losses the earlier trial is
/// better. `evaluate(trial, rung)` trains a trial, on from the rung before, and returns its loss; a
/// loss that is not finite never goes on. `stop` ends the search before the next trial.
std::vector<TrialResult> search(
    const std::vector<OptionValues>& trials, const std::vector<int64_t>& rungs, int64_t eta,
    const std::function<double(size_t trial, size_t rung)>& evaluate,
    const std::function<bool()>& stop = [] { return false; });

/// The indices of the results, the best first: those that reached a later rung before the others,
/// then by loss.
std::vector<size_t> best_first(const std::vector<TrialResult>& results);

}  // namespace vitrine::nn::training
