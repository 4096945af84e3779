// The scan of Mamba: a state space of each channel, whose decays and inputs depend on the position.
#pragma once

#include <vector>

#include "core/tensor.h"

namespace vitrine {

struct SelectiveScanOptions {
  Tensor skip = {};   ///< d [D], added as d·u; 0 if undefined
  Tensor state = {};  ///< h before the first position, [B, D, N]; zeros if undefined
};

/// The output at every position, y [B, T, D], and the state after the last one, [B, D, N].
struct SelectiveScanStates {
  Tensor y, state;
  std::vector<Tensor> tensors() const { return {y, state}; }
};

/// A selective state space. Each of D channels has N numbers h as its state:
///   hₜ = exp(Δₜ·a)·hₜ₋₁ + Δₜ·uₜ·bₜ        yₜ = Σ cₜ·hₜ over the N numbers + d·uₜ
/// u and delta (Δ > 0) [B, T, D], a [D, N] (negative: the state decays), b, c [B, T, N]. The state
/// is float32 where u has 16 bits. Saves the state once every 64 positions; the backward computes
/// those between again. Errors: shapes that do not match. Gu and Dao 2023, as released: the input
/// is discretized by Euler's rule.
SelectiveScanStates selective_scan(const Tensor& u, const Tensor& delta, const Tensor& a, const Tensor& b,
                                   const Tensor& c, const SelectiveScanOptions& options = {});

namespace define {
SelectiveScanStates selective_scan(const Tensor& u, const Tensor& delta, const Tensor& a, const Tensor& b,
                                   const Tensor& c, const SelectiveScanOptions& options = {});
}  // namespace define

}  // namespace vitrine
