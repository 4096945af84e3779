// The line that says how a training run goes.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace vitrine::nn::training {

/// What the line says.
struct Progress {
  std::string run;  ///< its name, such as "laser, seed 1"; may be empty
  int64_t step = 0, steps = 1;
  double loss = 0;
  double validation_loss = NAN;      ///< the last one; NaN: none yet
  std::vector<std::string> metrics;  ///< the last ones: "accuracy 0.9312"
  double seconds_left = 0, speed = 0;
  std::string item = "token";  ///< speed is in items a second
  double bytes = 0;            ///< peak of memory
};

/// "laser, seed 1: 20/500  loss 2.1043  val 2.2011  accuracy 0.9312  35 s left  52000 tokens/s
/// 210 MiB" in at most `width` columns: memory, speed, time left and metrics are dropped first,
/// from the end on, then the middle of the run's name, then the validation loss.
std::string progress_line(const Progress& progress, int64_t width);

/// Shows lines on standard error: on a terminal one that is written over, five times a second;
/// elsewhere, and if the environment variable TERM is "dumb" or not set, ten plain lines per run.
/// Never in colour.
class ProgressDisplay {
 public:
  void show(const Progress& progress);

 private:
  double shown_at_ = 0;
};

}  // namespace vitrine::nn::training
