// Benchmarks that train or sample a model in Vitrine and in PyTorch: their command line and
// processes.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/measure/sizes.h"

namespace vitrine::bench {

struct Contest {
  std::string only;  ///< a size; empty: all
  int rounds = 3;
  /// This program is to run one contender, for the size `only`, and to print what it measured
  bool process = false;

  std::vector<Size> sizes() const;
};

/// The command line; sets the threads. --help and mistakes end the program.
Contest parse_contest(const std::string& title, int argc, char** argv);

/// What the processes of each contender printed, a JSON object each. `theirs` is empty where there
/// is no PyTorch.
struct Runs {
  std::vector<nlohmann::json> ours, theirs;
};

/// Runs this program and `bench/pytorch/gpt.py TASK`, in turn, so that a disturbance meets both.
Runs run(const Contest& contest, const Size& size, const std::string& task);

/// The "seconds" of all runs.
std::vector<double> seconds_of(const std::vector<nlohmann::json>& runs);
/// The largest of a figure in all runs.
double largest(const std::vector<nlohmann::json>& runs, const std::string& figure);

}  // namespace vitrine::bench
