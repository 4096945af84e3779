// Several runs of one program, one after another, to be compared: each value of each option with
// each of the others.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "nn/report/run.h"

namespace vitrine::nn::training {

/// An option of the program, and the values that it has in the runs of a comparison.
struct SweepAxis {
  std::string option;  ///< its name: "optimizer", "seed"
  std::vector<std::string> values;
};

/// One run of a comparison.
struct Run {
  /// Name and value of each axis, in order.
  std::vector<std::pair<std::string, std::string>> options;
  std::string name;        ///< as the comparison shows it: "laser, optimizer lion, seed 2"
  std::string method;      ///< the name without the seed
  std::string files;       ///< what the names of its files begin with, folder included
  std::string checkpoint;  ///< where it saves
  std::string resume;      ///< the checkpoint that it goes on from; empty: it begins
  std::string go_on;  ///< the checkpoint from which to resume the comparison where this run is interrupted

  /// The value of an option of this run, which must be one of its axes.
  const std::string& value(const std::string& option) const;
};

/// The axes of a list such as {"standard", "laser", "optimizer=adamw", "lion"}: a word
/// OPTION=VALUE, where is_option(OPTION), begins an axis, of which the words after it are
/// further values. Words before the first such are values of `first`.
std::vector<SweepAxis> parse_axes(const std::vector<std::string>& words, const std::string& first,
                                  const std::function<bool(const std::string&)>& is_option);

/// A run for each combination of values; the last axis changes fastest. A name has the value of the
/// first axis, and of the others where they have several; "attention" itself is left out. A run saves
/// in `folder`. If `resume` is the checkpoint of a run, that run goes on from it, the runs before it
/// go on from their own where these exist, and the later ones begin. The options in a checkpoint tell
/// its run, or its path where it stores none of these options. Errors: no axes or values, one of them
/// twice, two runs with one file, a checkpoint of none of the runs.
std::vector<Run> plan_runs(const std::vector<SweepAxis>& axes, const std::string& folder,
                           const std::string& resume = "");

/// What went wrong while a run trained, and not before; with what it has shown until then.
struct FailedRun : Error {
  FailedRun(const std::string& what, report::RunRecord shown) : Error(what), record(std::move(shown)) {}
  report::RunRecord record;
};

/// What runs have shown: those that trained to their end or were stopped, and those that failed.
struct ComparisonRecords {
  std::vector<report::RunRecord> trained, failed;
};

/// Trains one run after another. A FailedRun leaves the others to go on; any other error ends them all. Once stop() says so no
/// further run begins, but a first one always does: it saves what there is to go on from.
ComparisonRecords train_runs(
    const std::vector<Run>& runs, const std::function<report::RunRecord(const Run&)>& train,
    const std::function<bool()>& stop = [] { return false; });

}  // namespace vitrine::nn::training
