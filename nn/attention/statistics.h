// What the heads of an attention do on a batch, in figures.
#pragma once

#include <array>
#include <functional>
#include <limits>
#include <vector>

#include "nn/attention/attention.h"

namespace vitrine::nn {

/// Means over the query rows that see more than one key. NaN where a figure was not measured or has
/// no meaning: entropy and jacobian of weights that are no distribution.
struct HeadFigures {
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  double entropy = kNone;        ///< −Σ p ln p, in nats
  double entropy_limit = kNone;  ///< ln(visible keys), the entropy of equal weights
  /// Half the L1 norm of ∂p/∂z of p = softmax(s), z = q·k: α Σ p(1 − p)·∂s/∂(αz). Without a softcap
  /// that is α(1 − Σp²); with s = c·tanh(αz/c) the last factor is 1 − tanh²(αz/c).
  double jacobian = kNone;
  double share_below_1e3 = kNone,
         share_below_1e7 = kNone;  ///< of the visible weights, by magnitude, in [0, 1]
  /// L2 norms of this head's part of the gradients handed in.
  double grad_norm_q = kNone, grad_norm_k = kNone, grad_norm_v = kNone;
};

/// One entry a query head. `gradients`: of a loss by trace.q, trace.k and trace.v, each possibly
/// undefined; a key head that several query heads share is counted for each. `each_weight` is
/// called with every visible weight that is counted.
std::vector<HeadFigures> inspect(const MixerTrace& trace, const std::array<Tensor, 3>& gradients = {},
                                 const std::function<void(double)>& each_weight = {});

}  // namespace vitrine::nn
