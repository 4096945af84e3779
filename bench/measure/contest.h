// Benchmarks that train or sample a model in Vitrine and in PyTorch: their command line and
// processes.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/measure/sizes.h"
#include "bench/measure/training.h"

namespace vitrine::bench {

struct Contest {
  std::string only;  ///< a size; empty: all
  int64_t time = 0;  ///< of one sequence in place of the size's batch; 0: as the size has it
  int rounds = 5;
  Precision precision = {};
  double clip = 0;                 ///< the maximum norm of gradients; 0: no clipping
  std::string mixer = "standard";  ///< of the model, for a process of Vitrine
  /// This program is to run one contender, for the size `only`, and to print what it measured
  bool process = false;

  /// The sizes that are asked for, with the mixer and the length of sequences.
  std::vector<Size> sizes() const;
};

/// The command line; sets the threads. --help and mistakes end the program.
Contest parse_contest(const std::string& title, int argc, char** argv);

/// One contender, and what its processes printed, a JSON object each.
struct Contender {
  std::string name, command;
  std::vector<nlohmann::json> runs = {};
};

/// Vitrine first; after it PyTorch, as "eager" and for training also as "compiled". Without PyTorch
/// there is Vitrine alone.
std::vector<Contender> contenders(const Contest& contest, const Size& size, const std::string& task);
/// Runs the contenders in turn, so that a disturbance affects all of them.
void run(const Contest& contest, std::vector<Contender>& contenders);
/// PyTorch's contender with the smallest median time; null without PyTorch.
const Contender* best_peer(const std::vector<Contender>& contenders);

/// The "seconds" of all runs.
std::vector<double> seconds_of(const std::vector<nlohmann::json>& runs);
/// The largest of a figure in all runs.
double largest(const std::vector<nlohmann::json>& runs, const std::string& figure);

}  // namespace vitrine::bench
