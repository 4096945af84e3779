// Policy gradients: a language model learns from the rewards of answers that it has written itself.
#pragma once

#include <cstdint>

#include "core/tensor.h"

namespace vitrine::nn {

/// r − β·(log π − log π_ref) for rewards [B] and the log-probabilities [B] of the same answers. The
/// mean over answers of π is E r − β·KL(π‖π_ref), so each nat of distance from the reference costs
/// β ≥ 0. Ziegler et al. 2019.
Tensor penalized_rewards(const Tensor& rewards, const Tensor& policy, const Tensor& reference, double beta);

/// R_b minus the mean of the other rewards of its group: rewards [B] → [B]. A group is `group` ≥ 2
/// rows in a row, such as the answers to one prompt. Such a baseline does not depend on answer b,
/// so it lowers the variance of the gradient and leaves its mean. Kool et al. 2019.
Tensor leave_one_out_advantages(const Tensor& rewards, int64_t group);

/// The loss whose gradient is the policy gradient: −Σ_t min((ρ_t − 1)·A, (clamp(ρ_t, 1 − ε, 1 + ε)
/// − 1)·A), averaged over answers. ρ_t = π/π_old is the ratio of the probabilities of token t now
/// and when it was sampled; both log-probabilities are [B, T], and 0 for what is no token of an
/// answer. The advantages A are [B].
///
/// Where π = π_old, the gradient is −A·∇log π, that of REINFORCE (Williams 1992). Later steps with
/// the same answers have ρ_t ≠ 1, and with ε = `clip` > 0 a token has no gradient once its ratio is
/// beyond 1 ± ε in the direction of A: PPO (Schulman et al. 2017). 0: no clipping. The 1 that is
/// subtracted changes no gradient, and lets other tokens than those of answers add 0. The gradient
/// flows into `policy` alone.
Tensor policy_gradient_loss(const Tensor& policy, const Tensor& sampled, const Tensor& advantages,
                            double clip = 0);

}  // namespace vitrine::nn
