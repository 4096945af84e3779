#include "core/checkpoint.h"

#include <utility>

#include "core/random.h"
#include "core/record.h"
#include "core/state.h"

namespace vitrine {
namespace {

thread_local bool running_again = false;

/// Puts the generator back to where it stood, and afterwards to where it had come.
class Replay {
 public:
  explicit Replay(const Generator& state)
      : later_(default_generator()), outer_(std::exchange(running_again, true)) {
    default_generator() = state;
  }
  ~Replay() {
    default_generator() = later_;
    running_again = outer_;
  }
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

 private:
  Generator later_;
  bool outer_;
};

}  // namespace

bool recomputing() { return running_again; }

Tensor checkpoint(const std::function<Tensor()>& f) {
  Tape* tape = Tape::recording();
  if (!tape || tape->order() > 1) return f();
  const Generator before = default_generator();
  std::vector<Tensor> inputs;
  Tensor y;
  {
    ReadRecorder reads(tape);
    const Tape::Pause pause;
    y = f();
    inputs = reads.read();
  }
  detail::discard_saved_bytes();
  const std::vector<Saved> saved(inputs.begin(), inputs.end());
  return record("checkpoint", inputs, y, [f, saved, before](const Backward& b) -> Grads {
    const Replay replay(before);
    Tape again;
    std::vector<Tensor> wanted;
    for (size_t i = 0; i < saved.size(); ++i) {
      const Tensor& x = saved[i];
      if (b.needs(i)) wanted.push_back(again.watch(x));
    }
    const Tensor y = f();
    std::vector<Tensor> gradients = again.gradient({y}, wanted, {b.dy()});
    Grads result(saved.size());
    for (size_t i = 0, k = 0; i < saved.size(); ++i)
      if (b.needs(i)) result[i] = std::move(gradients[k++]);
    return result;
  });
}

}  // namespace vitrine
