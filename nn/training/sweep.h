// Sweeps: several runs of one program for comparison, one for each combination of option values.
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

/// An option of the program, and its values in the runs of a comparison.
struct SweepAxis {
  std::string option;  ///< its name in the program's list: "optimizer", "seed"
  std::vector<std::string> values;
};

/// One run of a comparison.
struct Run {
  OptionValues options;  ///< name and value of each axis, in order
  std::string name;      ///< as shown in the comparison: "laser, optimizer lion, seed 2"
  std::string method;    ///< the name without the seed
  std::string file;      ///< the name of its files or of its folder
  std::string files;     ///< the prefix of the names of its files, with the folder
  /// The paths of its files. `record` and `report` are empty for Layout::files, where one report
  /// has all runs
  std::string config, metrics, checkpoint, record, report;
  /// The checkpoint from which it continues; empty: it starts from the beginning
  std::string resume;
  /// The checkpoint from which to resume the comparison if this run is interrupted
  std::string go_on;

  /// The value of an option, which must be one of the axes.
  const std::string& value(const std::string& option) const;
};

/// Parses the words of --compare, such as {"standard", "laser", "optimizer=adamw", "lion"}, into
/// axes. OPTION=VALUE begins an axis, and the following words are further values. Words before the
/// first axis are values of the option `first`; those in `parts` may have a number: softcap=20.
/// Values are normalized to the text of their option: 1e-3 becomes 0.001. Errors: an unknown
/// option; a wrong value; an option that is already given; an option with the role files or
/// execution.
std::vector<SweepAxis> parse_axes(const std::vector<std::string>& words, const std::string& first,
                                  const std::vector<std::string>& parts, OptionList& options);

/// Where the files of a run are, in the folder of the comparison.
enum class Layout {
  files,  ///< laser.ini, laser.jsonl, laser.safetensors
  /// laser/ with config.ini, metrics.jsonl, checkpoint.safetensors, record.json and report.html
  folders
};

/// Sets the paths of the files of a run: `path` is their prefix, or the folder of the run.
void place_files(Run& run, const std::string& path, Layout layout);

/// Plans one run per combination of values; the last axis changes fastest. The name of a run has
/// the value of the first axis, and of each other axis with several values; the word "mixer" is
/// omitted. Runs save in `folder`. If `resume` is the checkpoint of a run, that run continues from
/// it, earlier runs continue from their own checkpoints if these exist, and later runs start from
/// the beginning. The checkpoint is matched to a run by its options, or by its path if the options
/// do not decide. Errors: no axes or values; a repeated axis or value; two runs with the same file;
/// a checkpoint of no run.
std::vector<Run> plan_runs(const std::vector<SweepAxis>& axes, const std::string& folder,
                           const std::string& resume = "", Layout layout = Layout::files);

/// An error during the training of a run, with its record up to that point. Errors before training
/// have another type.
struct FailedRun : Error {
  FailedRun(const std::string& what, report::RunRecord shown) : Error(what), record(std::move(shown)) {}
  report::RunRecord record;
};

/// The records of the runs: those that finished or were stopped, and those that failed.
struct ComparisonRecords {
  std::vector<report::RunRecord> trained, failed;
};

/// Trains one run after another. After a FailedRun the other runs continue; any other error ends
/// all runs. When stop() returns true, no further run begins. The first run always begins, so that
/// there is a checkpoint to resume from.
ComparisonRecords train_runs(
    const std::vector<Run>& runs, const std::function<report::RunRecord(const Run&)>& train,
    const std::function<bool()>& stop = [] { return false; });

/// A run that has changed its schedule can be repeated only from its checkpoint, which the run
/// overwrites. This copies that checkpoint next to the run's files and returns the absolute path;
/// empty if the schedule has not changed. Call it after resume().
std::string keep_start(const Run& run, const Trainer& trainer);

}  // namespace vitrine::nn::training
