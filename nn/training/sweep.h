// Several runs of one program, one after another, to be compared: each value of each option with
// each of the others.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "nn/options.h"
#include "nn/report/run.h"
#include "nn/training/trainer.h"

namespace vitrine::nn::training {

/// An option of the program, and the values that it has in the runs of a comparison.
struct SweepAxis {
  std::string option;  ///< its name in the program's list: "optimizer", "seed"
  std::vector<std::string> values;
};

/// One run of a comparison.
struct Run {
  OptionValues options;    ///< name and value of each axis, in order
  std::string name;        ///< as the comparison shows it: "laser, optimizer lion, seed 2"
  std::string method;      ///< the name without the seed
  std::string files;       ///< what the names of its files begin with, folder included
  std::string checkpoint;  ///< where it saves
  std::string resume;      ///< the checkpoint that it goes on from; empty: it begins
  /// The checkpoint from which to resume the comparison where this run is interrupted
  std::string go_on;

  /// The value of an option of this run, which must be one of its axes.
  const std::string& value(const std::string& option) const;
};

/// The axes of the words of --compare, such as {"standard", "laser", "optimizer=adamw", "lion"}.
/// OPTION=VALUE begins an axis, and the words after it are further values. Words before the first
/// axis are values of the option `first`. In these, `parts` may have a number: softcap=20.
/// Values become the texts of their options, which are read: 1e-3 becomes 0.001. Errors: an unknown
/// option; a wrong value; an option that is given already, or decides files or execution.
std::vector<SweepAxis> parse_axes(const std::vector<std::string>& words, const std::string& first,
                                  const std::vector<std::string>& parts, OptionList& options);

/// A run for each combination of values; the last axis changes fastest. A name has the value of the
/// first axis, and of the others where they have several; "attention" itself is left out. A run
/// saves in `folder`. If `resume` is the checkpoint of a run, that run goes on from it, the runs
/// before it go on from their own where these exist, and the later ones begin. The options in a
/// checkpoint tell its run, or its path where they do not. Errors: no axes or values, one of them
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

/// Trains one run after another. A FailedRun leaves the others to go on; any other error ends them
/// all. Once stop() says so no further run begins, but a first one always does: it saves what there
/// is to go on from.
ComparisonRecords train_runs(
    const std::vector<Run>& runs, const std::function<report::RunRecord(const Run&)>& train,
    const std::function<bool()>& stop = [] { return false; });

/// A run that has changed its schedule is repeated from a checkpoint, which it overwrites. Copies
/// that one beside the run's files and returns the absolute path; empty where the schedule is the
/// one of the beginning. To be called after resume().
std::string keep_start(const Run& run, const Trainer& trainer);

}  // namespace vitrine::nn::training
