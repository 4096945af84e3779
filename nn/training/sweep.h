// Several runs of one program, one after another, to be compared: each attention with each seed.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "nn/report/run.h"
#include "nn/training/trainer.h"

namespace vitrine::nn::training {

/// One run of a comparison.
struct Run {
  std::string attention;
  uint64_t seed = 0;
  std::string name;   ///< as the comparison shows it: the attention, and the seed where there are several
  std::string files;  ///< what the names of its files begin with, folder included
  std::string checkpoint;  ///< where it saves
  std::string resume;      ///< the checkpoint that it goes on from; empty: it begins
  std::string go_on;  ///< the checkpoint from which to resume the comparison where this run is interrupted
};

/// Each attention with each seed; files lie in `folder`. Where `resume` is the checkpoint of one of these runs, that one goes on
/// from it, those before it from their own where these are there, and those after it begin. A checkpoint of none of them is an
/// error.
std::vector<Run> plan_runs(const std::vector<std::string>& attentions, const std::vector<uint64_t>& seeds,
                           const std::string& folder, const std::string& resume = "");

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

/// A run that has changed its schedule is repeated from a checkpoint, which it overwrites. Copies that one beside the run's files
/// and returns the absolute path; empty where the schedule is the one of the beginning. To be called
/// after resume().
std::string keep_start(const Run& run, const Trainer& trainer);

/// "laser: mean validation loss 1.8811 of 3 seeds", a line for each method of several runs.
std::string mean_losses(const std::vector<report::RunRecord>& records);

}  // namespace vitrine::nn::training
