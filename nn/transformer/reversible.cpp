#include "nn/transformer/reversible.h"

#include <algorithm>

#include "core/recompute.h"
#include "core/record.h"
#include "core/tape.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/view.h"

namespace vitrine::nn {
namespace {

using Function = std::function<Tensor(const Tensor&)>;

/// A function of a layer that has run, and which of the node's inputs it has read.
struct Half {
  Function run;
  FirstRun first;
  std::vector<size_t> inputs = {};
};

/// The node of all layers: its halves in the order f, g, f, g, …
struct Halves {
  std::vector<Half> all;
  std::vector<Tensor> inputs;  ///< what the functions read: parameters and other tracked tensors

  Tensor run(Tape& tape, const Function& f, const Tensor& x) {
    all.push_back({f, {}});
    Half& half = all.back();
    Tensor y;
    half.first.run(tape, [&] { y = f(x); });
    for (const Tensor& input : half.first.inputs()) {
      const auto known =
          std::find_if(inputs.begin(), inputs.end(), [&](const Tensor& t) { return t.is_same(input); });
      half.inputs.push_back(static_cast<size_t>(known - inputs.begin()));
      if (known == inputs.end()) inputs.push_back(input);
    }
    half.first.forget_inputs();
    return y;
  }
};

/// One function in the backward pass: out = in + h(other). Given `out`, `other` and the gradient of
/// out, restores `in` in place of out, and adds the gradient of h to that of `other`.
class WayBack {
 public:
  WayBack(const Backward& b, const std::vector<Saved>& saved, bool anomaly)
      : b_(b), saved_(saved), sums_(saved.size()), anomaly_(anomaly) {}

  void undo(const Half& half, Tensor& out, const Tensor& other, const Tensor& d_out, Tensor& d_other) {
    Tape tape({.anomaly = anomaly_});
    std::vector<Tensor> wanted = {tape.watch(detach(other))}, sums = {d_other};
    std::vector<size_t> of;
    for (const size_t i : half.inputs)
      if (b_.needs(2 + i)) {
        of.push_back(i), wanted.push_back(tape.watch(saved_[i]));
        sums.push_back(sums_[i].defined() ? sums_[i] : b_.take_sum(2 + i));
        sums_[i] = {};
      }
    Tensor h;
    half.first.again([&] { h = half.run(wanted[0]); });
    {
      const Tape::Pause pause;
      out = out - h;
    }
    std::vector<Tensor> gradients = tape.gradient({h}, wanted, {d_out}, std::move(sums));
    d_other = std::move(gradients[0]);
    for (size_t k = 0; k < of.size(); ++k) sums_[of[k]] = std::move(gradients[k + 1]);
  }
  std::vector<Tensor>& sums() { return sums_; }

 private:
  const Backward& b_;
  const std::vector<Saved>& saved_;
  std::vector<Tensor> sums_;
  bool anomaly_;
};

Grads backward(const Backward& b, const Halves& halves, const std::vector<Saved>& saved, const Tensor& y,
               bool anomaly) {
  WayBack way(b, saved, anomaly);
  Tensor streams[] = {select(y, 0, 0), select(y, 0, 1)};
  Tensor grads[] = {clone(select(b.dy(), 0, 0)), clone(select(b.dy(), 0, 1))};
  for (size_t i = halves.all.size(); i-- > 0;) {
    const size_t out = i % 2, other = 1 - out;  // f changes the first stream, g the second
    way.undo(halves.all[i], streams[out], streams[other], grads[out], grads[other]);
  }
  Grads result = {grads[0], grads[1]};
  for (Tensor& sum : way.sums()) result.emplace_back(std::move(sum));
  return result;
}

}  // namespace

std::pair<Tensor, Tensor> residual_layers(const std::vector<ReversibleLayer>& layers, const Tensor& x1,
                                          const Tensor& x2) {
  std::pair<Tensor, Tensor> y{x1, x2};
  for (const ReversibleLayer& layer : layers) {
    y.first = y.first + layer.f(y.second);
    y.second = y.second + layer.g(y.first);
  }
  return y;
}

std::pair<Tensor, Tensor> reversible(const std::vector<ReversibleLayer>& layers, const Tensor& x1,
                                     const Tensor& x2) {
  check(x1.shape() == x2.shape() && x1.dtype() == x2.dtype(),
        "reversible: the streams are {} and {}, wanted one shape and one dtype", describe(x1), describe(x2));
  Tape* const tape = Tape::recording();
  if (tape == nullptr || tape->order() > 1) return residual_layers(layers, x1, x2);
  Halves halves;
  Tensor y;
  {
    Tensor y1, y2;
    {
      const Tape::Pause pause;
      y1 = detach(x1), y2 = detach(x2);
    }
    for (const ReversibleLayer& layer : layers)
      for (const bool second : {false, true}) {
        const Tensor h = halves.run(*tape, second ? layer.g : layer.f, second ? y1 : y2);
        const Tape::Pause pause;
        (second ? y2 : y1) = (second ? y2 : y1) + h;
      }
    const Tape::Pause pause;
    y = stack({y1, y2}, 0);
  }
  std::vector<Tensor> inputs = {x1, x2};
  inputs.insert(inputs.end(), halves.inputs.begin(), halves.inputs.end());
  const std::vector<Saved> saved(halves.inputs.begin(), halves.inputs.end());
  halves.inputs.clear();
  y = record("reversible", inputs, y,
             [halves, saved, y = Saved(y), anomaly = tape->options().anomaly](const Backward& b) -> Grads {
               return backward(b, halves, saved, y, anomaly);
             });
  return {select(y, 0, 0), select(y, 0, 1)};
}

}  // namespace vitrine::nn
