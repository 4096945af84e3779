// Adaptive computation time: each position takes as many steps as it needs.
#pragma once

#include <functional>

#include "core/names.h"
#include "nn/layers/linear.h"

namespace vitrine::nn {

/// How a position halts and what it returns. graves: the probability is read from the state after a
/// step, and the result is Σ p_n·s_n (Graves 2016). universal: the probability is read from the
/// state before a step, and the result moves, y ← p·s + (1 − p)·y (Dehghani et al. 2019, as
/// released).
enum class HaltingKind { graves, universal };
inline EnumNames<HaltingKind> names_of(HaltingKind) {
  return {"kind of halting", {{"graves", HaltingKind::graves}, {"universal", HaltingKind::universal}}};
}

struct HaltingOptions {
  HaltingKind kind = HaltingKind::universal;
  double threshold = 0.99;  ///< a position halts when its probabilities sum to more, in (0, 1)
  int64_t max_steps = 8;    ///< at least 1
  double ponder = 0.01;     ///< factor of the auxiliary loss; see Halted
};

/// The result of adaptive computation, for states [..., C].
struct Halted {
  Tensor state;   ///< [..., C]
  Tensor ponder;  ///< [...]: N + R, the steps and the probability left for the last one
  Tensor steps;   ///< int64 [...]: N
  /// ponder·mean(N + R) over the positions that are not padding, a scalar. It makes positions halt
  /// early. Only Halting sets it, and only in training
  Tensor auxiliary = {};
};

/// Applies `step(s, n)`, n = 1, 2, …, to all positions until each has halted, or max_steps times.
/// Each step has a probability p_n for each position, [...]. A position halts at the first step at
/// which the sum of its probabilities exceeds the threshold. The p of that step becomes what the
/// steps before it have left of 1. A halted position keeps its result. A position that has not
/// halted after max_steps stops there: in `graves` its last p becomes what is left of 1, and in
/// `universal` that p does not change. After each step the device is asked whether all positions
/// have halted.
Halted adaptive_computation(const Tensor& x, const std::function<Tensor(const Tensor& s, int64_t n)>& step,
                            const std::function<Tensor(const Tensor& s)>& probability,
                            const HaltingOptions& options = {});

/// The halting probability σ(w·s + b) of each position, with b = 1 at first, and the computation.
class Halting : public Module {
 public:
  explicit Halting(int64_t width, HaltingOptions options = {});
  /// `real`, bool [...], is false for padding.
  Halted forward(const Tensor& x, const std::function<Tensor(const Tensor& s, int64_t n)>& step,
                 const Tensor& real = {}) const;
  void fields(Fields& f) override;
  Halting clone();

  Linear unit;  ///< C → 1

 private:
  HaltingOptions options_;
};

}  // namespace vitrine::nn
