// Softmax losses with a margin between classes, for vectors that are compared by their angle.
#pragma once

#include "core/names.h"
#include "core/tensor.h"

namespace vitrine::nn {

/// How the cosine of the target class becomes smaller by the margin m. am_softmax: cos θ − m (Wang
/// et al. 2018). arcface: cos(θ + m), and cos θ − m·sin m where θ + m ≥ π (Deng et al. 2019).
enum class Margin { am_softmax, arcface };
inline EnumNames<Margin> names_of(Margin) {
  return {"margin", {{"am_softmax", Margin::am_softmax}, {"arcface", Margin::arcface}}};
}

struct MarginOptions {
  Margin kind = Margin::am_softmax;
  double margin = 0.35;  ///< m: for arcface an angle in [0, π)
  double scale = 30;     ///< the factor of all cosines
};

/// The cross-entropy of scale·cos θ_c, with the margin at the target, averaged over rows. θ_c is
/// the angle between row n of x [N, C] and row c of the class vectors w [classes, C]; targets int
/// [N].
Tensor margin_softmax(const Tensor& x, const Tensor& w, const Tensor& targets,
                      const MarginOptions& options = {});

}  // namespace vitrine::nn
