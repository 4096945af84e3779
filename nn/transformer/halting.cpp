#include "nn/transformer/halting.h"

#include <optional>

#include "core/creation.h"
#include "nn/init.h"
#include "nn/layers/over_time.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace vitrine::nn {
namespace {

/// The sums of all positions during the computation. Sums are differentiable; whether a position
/// runs is not.
struct Progress {
  Tensor total, ponder;   ///< [...]: sum of probabilities, and ponder cost
  Tensor running, steps;  ///< bool and int64 [...]

  explicit Progress(const Tensor& p)
      : total(zeros_like(p)),
        ponder(zeros_like(p)),
        running(ones(p.shape(), DType::boolean, p.device())),
        steps(zeros(p.shape(), DType::int64, p.device())) {}

  /// Takes a step with probability p and returns the weight of the step: p, the rest for a position
  /// that halts here, and 0 for one that has halted. `last`: all running positions halt.
  Tensor take(const Tensor& p, double threshold, bool last) {
    const Tensor over = greater(detach(total + p), full_like(total, threshold));
    const Tensor halts = last ? running : logical_and(running, over);
    const Tensor goes_on = logical_and(running, logical_not(halts));
    const Tensor rest = 1 - total, weight = where(halts, rest, where(running, p, 0));
    steps = steps + cast(running, DType::int64);
    ponder = ponder + cast(running, p.dtype()) + where(halts, rest, 0);
    total = total + where(goes_on, p, 0);
    running = goes_on;
    return weight;
  }

  bool done() const { return any(running).item() == 0; }
};

}  // namespace

Halted adaptive_computation(const Tensor& x, const std::function<Tensor(const Tensor&, int64_t)>& step,
                            const std::function<Tensor(const Tensor&)>& probability,
                            const HaltingOptions& o) {
  check(o.max_steps >= 1, "adaptive_computation: max_steps is {}, wanted at least 1", o.max_steps);
  check(o.threshold > 0 && o.threshold < 1, "adaptive_computation: the threshold is {}, wanted (0, 1)",
        o.threshold);
  check(x.rank() >= 1, "adaptive_computation: x is {}, wanted [..., C]", x.shape());
  const bool before = o.kind == HaltingKind::universal;
  Tensor s = x, y = zeros_like(x);
  std::optional<Progress> progress;
  for (int64_t n = 1; n <= o.max_steps; ++n) {
    if (!before) s = step(s, n);
    const Tensor p = probability(s);
    check(p.rank() == x.rank() - 1,
          "adaptive_computation: the probability is {}, wanted one per position of {}", p.shape(), x.shape());
    if (before) s = step(s, n);
    if (!progress) progress.emplace(p);
    // The released code of universal Transformers leaves no remainder to the last step.
    const Tensor weight = unsqueeze(progress->take(p, o.threshold, n == o.max_steps && !before), -1);
    y = before ? weight * s + (1 - weight) * y : y + weight * s;
    if (progress->done()) break;
  }
  return {y, progress->ponder, progress->steps};
}

Halting::Halting(int64_t width, HaltingOptions options) : unit(width, 1), options_(options) {
  unit.bias = constant({1}, 1);
}

Halted Halting::forward(const Tensor& x, const std::function<Tensor(const Tensor&, int64_t)>& step,
                        const Tensor& real) const {
  check(!real.defined() || real.numel() * x.size(-1) == x.numel(),
        "Halting: `real` is {}, wanted one bool for each position of {}", describe(real), x.shape());
  Halted h = adaptive_computation(
      x, step, [&](const Tensor& s) { return squeeze(sigmoid(unit.forward(s)), {-1}); }, options_);
  if (!training()) return h;
  const int64_t count = h.ponder.numel();
  const Tensor ponder =
      mean_of_real(reshape(h.ponder, {count, 1}), real.defined() ? reshape(real, {count}) : real);
  h.auxiliary = options_.ponder * reshape(ponder, {});
  return h;
}

void Halting::fields(Fields& f) { f("unit", unit); }

Halting Halting::clone() {
  return clone_into([this] { return Halting(unit.weight.shape()[1], options_); });
}

}  // namespace vitrine::nn
