#include "core/recompute.h"

#include <utility>

#include "core/random.h"
#include "core/record.h"
#include "core/state.h"

namespace vitrine {
namespace {

thread_local bool running_again = false;

using Drawn = ReadRecorder::Drawn;

/// Resets the generators to their states before the first run, and at the end to their later
/// states.
class Replay {
 public:
  explicit Replay(const std::vector<Drawn>& drawn) : outer_(std::exchange(running_again, true)) {
    for (const Drawn& d : drawn) later_.push_back({d.state, std::exchange(*d.state, d.before)});
  }
  ~Replay() {
    for (const Drawn& d : later_) *d.state = d.before;
    running_again = outer_;
  }
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

 private:
  std::vector<Drawn> later_;
  bool outer_;
};

void check_unchanged(const std::vector<ReadRecorder::Memory>& memory) {
  for (const auto& [weak, version] : memory) {
    const auto storage = weak.lock();
    check(!storage || storage->version() == version,
          "recompute: a tensor of {} bytes that the forward read was overwritten since, by {}: its second "
          "run would compute something else",
          storage ? storage->bytes() : 0, storage ? storage->last_writer() : "");
  }
}

}  // namespace

bool recomputing() { return running_again; }

void FirstRun::run(Tape& tape, const std::function<void()>& f) {
  {
    ReadRecorder reads(&tape);
    const Tape::Pause pause;
    f();
    inputs_ = reads.tracked(), memory_ = reads.memory(), drawn_ = reads.generators();
    math_ = matmul_math();
  }
  detail::discard_saved();
}

void FirstRun::again(const std::function<void()>& f) const {
  const Replay replay(drawn_);
  const MatmulMathScope same(math_);
  check_unchanged(memory_);
  f();
}

std::vector<Tensor> recompute_all(const std::function<std::vector<Tensor>()>& f) {
  Tape* tape = Tape::recording();
  if (!tape || tape->order() > 1) return f();
  FirstRun first;
  std::vector<Tensor> results, outputs;
  first.run(*tape, [&] { results = f(); });
  // A tracked result is an input that f returns as it is, as the first run records nothing.
  const auto is_output = [tape](const Tensor& x) {
    return x.defined() && is_floating(x.dtype()) && !tape->tracks(x);
  };
  std::vector<size_t> places;  // of the outputs among the results
  for (size_t i = 0; i < results.size(); ++i)
    if (is_output(results[i])) {
      places.push_back(i);
      // The tape marks the output, which may be a tensor of the caller.
      outputs.push_back(results[i].alias(results[i].shape(), results[i].strides()));
    }
  const std::vector<Tensor> inputs = first.inputs();
  first.forget_inputs();
  const std::vector<Saved> saved(inputs.begin(), inputs.end());
  const auto backward = [=, anomaly = tape->options().anomaly](const Backward& b) -> Grads {
    Tape again({.anomaly = anomaly});
    std::vector<Tensor> wanted, sums;
    for (size_t i = 0; i < saved.size(); ++i) {
      const Tensor& x = saved[i];
      if (b.needs(i)) wanted.push_back(again.watch(x));
    }
    std::vector<Tensor> second, ys, dys;
    first.again([&] { second = f(); });
    for (size_t k = 0; k < places.size(); ++k)
      if (b.dy(k).defined()) {
        ys.push_back(second[places[k]]);
        dys.push_back(b.dy(k));
      }
    // Gradients continue from the sums of the outer pass, so that all are added up in the order of
    // a run without checkpoints.
    for (size_t i = 0; i < saved.size(); ++i)
      if (b.needs(i)) sums.push_back(b.take_sum(i));
    std::vector<Tensor> gradients = again.gradient(ys, wanted, dys, std::move(sums));
    Grads result(saved.size());
    for (size_t i = 0, k = 0; i < saved.size(); ++i)
      if (b.needs(i)) result[i] = std::move(gradients[k++]);
    return result;
  };
  outputs = record_all("recompute", inputs, std::move(outputs), backward);
  for (size_t k = 0; k < places.size(); ++k) results[places[k]] = outputs[k];
  return results;
}

Tensor recompute(const std::function<Tensor()>& f) {
  return recompute_all([f] { return std::vector<Tensor>{f()}; })[0];
}

}  // namespace vitrine
