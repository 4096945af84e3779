// The progress line of a training run.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace vitrine::nn::training {

/// The content of the line.
struct Progress {
  std::string run;  ///< its name, such as "laser, seed 1"; may be empty
  int64_t step = 0, steps = 1;
  double loss = 0;
  double validation_loss = NAN;      ///< the last one; NaN: none yet
  std::vector<std::string> metrics;  ///< the last values: "accuracy 0.9312"
  double seconds_left = 0, speed = 0;
  std::string item = "token";  ///< speed is in items per second
  double bytes = 0;            ///< peak memory
  bool last = false;           ///< the run ends here, before all steps
};

/// "laser, seed 1: 20/500  loss 2.1043  val 2.2011  accuracy 0.9312  35 s left  52000 tokens/s 210
/// MiB" in at most `width` columns. If the line is too long, these are dropped in turn: memory,
/// speed, time left, metrics from the last on, the middle of the run's name, the validation loss.
std::string progress_line(const Progress& progress, int64_t width);

/// Prints progress on standard error. On a terminal, one line is overwritten five times a second.
/// Otherwise, and if the environment variable TERM is "dumb" or not set, a run prints ten plain
/// lines. Without colour.
class ProgressDisplay {
 public:
  void show(const Progress& progress);

 private:
  double shown_at_ = 0;
};

}  // namespace vitrine::nn::training
