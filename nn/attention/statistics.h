// Statistics of the heads of an attention on a batch.
#pragma once

#include <array>
#include <functional>
#include <limits>
#include <vector>

#include "nn/attention/attention.h"

namespace vitrine::nn {

/// Means over the queries that see more than one key. A value is NaN if it was not measured or is
/// undefined: entropy and jacobian require weights that are a distribution.
struct HeadFigures {
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  double entropy = kNone;        ///< −Σ p ln p, in nats
  double entropy_limit = kNone;  ///< ln(number of visible keys), the entropy of equal weights
  /// Half the L1 norm of ∂p/∂z for z = q·k: α Σ g(1 − g/Σg)·∂s/∂(αz), where ∂p/∂s is diag(g) −
  /// g·gᵀ/Σg. Softmax has g = p, so that without a softcap this is α(1 − Σp²). Sparsemax has g = 1
  /// in its support of k keys, α(k − 1), and entmax 1.5 has g = √p, α(Σ√p − 1/Σ√p). With the
  /// softcap s = c·tanh(αz/c), ∂s/∂(αz) is 1 − tanh²(αz/c).
  double jacobian = kNone;
  double share_below_1e3 = kNone,
         share_below_1e7 = kNone;  ///< share of the visible weights with |weight| < 10⁻³ (10⁻⁷)
  /// L2 norms of the given gradients, restricted to this head.
  double grad_norm_q = kNone, grad_norm_k = kNone, grad_norm_v = kNone;
};

/// Returns one entry per query head. `gradients`: those of a loss with respect to trace.q, trace.k
/// and trace.v; each may be undefined. A key head that several query heads share is counted for
/// each of them. `each_weight` is called with every visible weight that is counted.
std::vector<HeadFigures> inspect(const MixerTrace& trace, const std::array<Tensor, 3>& gradients = {},
                                 const std::function<void(double)>& each_weight = {});

}  // namespace vitrine::nn
