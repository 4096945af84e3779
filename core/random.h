// Random tensors. A generator is a seed and a counter: the same seed gives the same numbers on any
// device and any number of threads, and a checkpoint saves the two integers.
#pragma once

#include <cstdint>
#include <memory>

#include "core/creation.h"
#include "core/philox.h"

namespace vitrine {

class Generator;

/// Where a generator stands: its seed, and the counter of its next number.
struct RandomState {
  uint64_t seed, offset;
};

namespace detail {
/// Tells a checkpoint that runs on this thread that numbers are about to be drawn.
void note_draw(const std::shared_ptr<RandomState>& state);
/// Draw::moved; null unless this thread captures a graph.
const Draw* moved(Generator& generator);
}  // namespace detail

/// Philox4x32-10 (core/philox.h) with seed and counter. A counter gives four 32-bit words, so
/// `count` numbers take ⌈count/4⌉. A copy goes on from there by itself. Not for several threads at
/// a time.
class Generator {
 public:
  explicit Generator(uint64_t seed = 0) : state_(std::make_shared<RandomState>(RandomState{seed, 0})) {}
  Generator(const Generator& other) : state_(std::make_shared<RandomState>(*other.state_)) {}
  Generator& operator=(const Generator& other) {
    *state_ = *other.state_;
    return *this;
  }
  ~Generator() = default;

  uint64_t seed() const { return state_->seed; }
  uint64_t offset() const { return state_->offset; }  ///< the counter of the next number
  void set(uint64_t seed, uint64_t offset = 0) { *state_ = {seed, offset}; }
  /// The counter at which `count` numbers start; moves on past them.
  uint64_t reserve(int64_t count) {
    detail::note_draw(state_);
    const uint64_t start = state_->offset;
    state_->offset += static_cast<uint64_t>(count + 3) / 4;
    return start;
  }
  /// The same for a kernel, which in a graph draws other numbers in each replay: of the thread's
  /// generator alone.
  Draw draw(int64_t count);
  /// A uniform integer in [0, limit), without bias.
  int64_t next_below(int64_t limit);
  /// A uniform double in [0, 1).
  double next_uniform();

 private:
  std::shared_ptr<RandomState> state_;  // shared with checkpoints, which may outlive the generator
};

/// The calling thread's generator, used where none is given. Seed 0 until manual_seed says
/// otherwise.
Generator& default_generator();
void manual_seed(uint64_t seed);  ///< starts the calling thread's generator anew

/// Uniform in [low, high), of 24 random bits; low = high gives low. A dtype that is not floating is
/// an error, here and in randn.
Tensor rand(const Shape& shape, DType dtype = DType::float32, Device device = Device::cpu, double low = 0,
            double high = 1, Generator& generator = default_generator());
/// Normal with the given mean and standard deviation. Drawn in float32, whatever the dtype.
Tensor randn(const Shape& shape, DType dtype = DType::float32, Device device = Device::cpu, double mean = 0,
             double deviation = 1, Generator& generator = default_generator());
/// Uniform int64 in [low, high).
Tensor randint(int64_t low, int64_t high, const Shape& shape, Device device = Device::cpu,
               Generator& generator = default_generator());
/// 0 … n − 1 in random order (int64). Shuffled on the CPU: a GPU gets a copy, which no graph can
/// capture.
Tensor randperm(int64_t n, Device device = Device::cpu, Generator& generator = default_generator());

}  // namespace vitrine
