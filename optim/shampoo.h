#pragma once

#include "optim/optimizer.h"

namespace vitrine::optim {

struct ShampooOptions {
  double lr = 0.1;          ///< ≥ 0
  double eps = 1e-4;        ///< > 0
  double weight_decay = 0;  ///< ≥ 0, decoupled
  int64_t every = 1;        ///< ≥ 1, steps from one computation of the roots to the next
  int64_t largest = 512;    ///< ≥ 0: a longer side of a matrix has no statistics
};

/// For matrices: L = eps·1 + Σ ggᵀ, R = eps·1 + Σ gᵀg; x ← (1 − lr·decay)x −
/// lr·L^(−1/4)·g·R^(−1/4). With statistics of one side alone, its root is L^(−1/2). Tensors of more
/// axes are matrices [first axis, the others]. Vectors, and matrices whose sides are both too long,
/// take the diagonal: g/√(eps + Σ g²). Elements of g are limited to 2^50 (2^400 in float64). The
/// roots cost O(n³) for a side of n, on the CPU. Gupta, Koren and Singer, arXiv 1802.09568. State:
/// left and right (L and R without eps), left_root and right_root, or squares (Σ g²).
class Shampoo : public Optimizer {
 public:
  explicit Shampoo(std::vector<Parameter> parameters, ShampooOptions options = {});

 private:
  void update(ParameterBatch& batch, const GroupOptions& group, int64_t t) override;
  std::vector<StateSlot> slots(const Parameter& p) const override;
  ShampooOptions options_;
};

}  // namespace vitrine::optim
