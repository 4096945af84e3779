// Linear recurrences over a state that is a matrix: linear attention with and without decay, the
// delta rule, state spaces with a scalar decay (Mamba-2) and RWKV-7 are calls of one operation.
#pragma once

#include <vector>

#include "core/tensor.h"

namespace vitrine {

struct LinearScanOptions {
  /// g: the logarithm of the decay, which expands to [B, H, T] (one number per head and position)
  /// or, with four axes, to [B, H, T, dk] (one per row of the state). Undefined: no decay.
  Tensor log_decay = {};
  /// a and b [B, H, T, dk]: bₜ reads from the state before position t, and the result is added
  /// along aₜ. Both are defined, or neither is.
  Tensor erase_to = {}, erase_from = {};
  /// S₀ [B, H, dk, dv]; zeros if undefined.
  Tensor state = {};
  double scale = 1;
};

/// What is read at every position, o [B, H, T, dv], and the state after the last one,
/// [B, H, dk, dv].
struct LinearScanStates {
  Tensor o, state;
  std::vector<Tensor> tensors() const { return {o, state}; }
};

/// A linear recurrence over a matrix. With q, k, a, b as rows of dk numbers and v as rows of dv,
///   Sₜ = diag(exp(gₜ))·Sₜ₋₁ + aₜᵀ·(bₜ·Sₜ₋₁) + kₜᵀ·vₜ        oₜ = scale·qₜ·Sₜ
/// q, k [B, H, T, dk], v [B, H, T, dv]; the state is float32 where v has 16 bits. Decays are only
/// multiplied, so gₜ = −∞ clears the state. Saves the state once every 64 positions, and bₜ·Sₜ₋₁;
/// the backward computes the states between again. Errors: shapes that do not match. Delta rule:
/// a = −β·k, b = exp(g)·k, k ← β·k. Katharopoulos et al. 2020; Yang et al. 2024.
LinearScanStates linear_scan(const Tensor& q, const Tensor& k, const Tensor& v,
                             const LinearScanOptions& options = {});

namespace define {
LinearScanStates linear_scan(const Tensor& q, const Tensor& k, const Tensor& v,
                             const LinearScanOptions& options = {});
}  // namespace define

}  // namespace vitrine
