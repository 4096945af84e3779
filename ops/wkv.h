// The weighted average of RWKV-4: attention whose weights do not depend on a query.
#pragma once

#include <vector>

#include "core/tensor.h"

namespace vitrine {

/// The average of all earlier values, and the logarithm of the sum of their weights, [B, C] each.
struct WkvState {
  Tensor mean, log_weight;
};

/// The averages at every position, y [B, T, C], and the state after the last one.
struct WkvStates {
  Tensor y;
  WkvState state;
  std::vector<Tensor> tensors() const { return {y, state.mean, state.log_weight}; }
};

/// A running weighted average in each channel. An earlier value i has the weight
/// exp(kᵢ + (t − 1 − i)·decay), the value of position t itself exp(bonus + kₜ):
///   yₜ = (Σ_{i<t} exp(kᵢ + (t − 1 − i)·decay)·vᵢ + exp(bonus + kₜ)·vₜ)/(the sum of the weights)
/// k and v [B, T, C]; decay (at most 0, or old values grow) and bonus [C]. The state is undefined
/// before the first position, and float32 where v has 16 bits. Weights are compared by their
/// logarithms, so that no exponential overflows. k = −∞ hides a value, but not the first one, for
/// which it gives NaN. Saves the state once every 64 positions. Errors: shapes that do not match.
/// Peng et al. 2023.
WkvStates wkv(const Tensor& k, const Tensor& v, const Tensor& decay, const Tensor& bonus,
              const WkvState& state = {});

namespace define {
WkvStates wkv(const Tensor& k, const Tensor& v, const Tensor& decay, const Tensor& bonus,
              const WkvState& state);
}  // namespace define

}  // namespace vitrine
