// Random tensors. A generator is a seed and a counter. The same seed gives the same numbers on any
// device and any number of threads, and a checkpoint saves the two integers.
#pragma once

#include <cstdint>
#include <memory>

#include "core/creation.h"
#include "core/philox.h"

namespace vitrine {

class Generator;

/// The state of a generator: its seed, and the counter of its next number.
struct RandomState {
  uint64_t seed, offset;
};

namespace detail {
/// Informs a checkpoint that runs on this thread that numbers are about to be drawn.
void note_draw(const std::shared_ptr<RandomState>& state);
/// The value of Draw::moved; null unless this thread captures a graph.
const Draw* moved(Generator& generator);
}  // namespace detail

/// Philox4x32-10 (core/philox.h) with a seed and a counter. Each counter value gives four 32-bit
/// words, so `count` numbers use ⌈count/4⌉ counter values. A copy continues independently from the
/// same state. Not thread-safe.
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
  /// Returns the counter at which `count` numbers start, and advances past them.
  uint64_t reserve(int64_t count) {
    detail::note_draw(state_);
    const uint64_t start = state_->offset;
    state_->offset += static_cast<uint64_t>(count + 3) / 4;
    return start;
  }
  /// The same for a kernel, which draws other numbers in each replay of a graph. In a graph only
  /// the thread's default generator is allowed.
  Draw draw(int64_t count);
  /// A uniform integer in [0, limit), without bias.
  int64_t next_below(int64_t limit);
  /// A uniform double in [0, 1).
  double next_uniform();

 private:
  std::shared_ptr<RandomState> state_;  // shared with checkpoints, which may outlive the generator
};

/// The calling thread's generator, used if no generator is given. Its seed is 0 until manual_seed
/// changes it.
Generator& default_generator();
void manual_seed(uint64_t seed);  ///< restarts the calling thread's generator

/// Uniform in [low, high), with 24 random bits; low = high gives low. A dtype that is not floating
/// is an error, here and in randn.
Tensor rand(const Shape& shape, DType dtype = DType::float32, Device device = Device::cpu, double low = 0,
            double high = 1, Generator& generator = default_generator());
/// Normal with the given mean and standard deviation. Drawn in float32 for every dtype.
Tensor randn(const Shape& shape, DType dtype = DType::float32, Device device = Device::cpu, double mean = 0,
             double deviation = 1, Generator& generator = default_generator());
/// Uniform int64 in [low, high).
Tensor randint(int64_t low, int64_t high, const Shape& shape, Device device = Device::cpu,
               Generator& generator = default_generator());
/// A random permutation of 0 … n − 1 (int64). It is shuffled on the CPU and copied to a GPU, so a
/// graph cannot capture it.
Tensor randperm(int64_t n, Device device = Device::cpu, Generator& generator = default_generator());

}  // namespace vitrine
