// Losses of preferences: of two answers to a prompt, one is chosen and the other one is rejected.
#pragma once

#include "core/tensor.h"

namespace vitrine::nn {

/// log p of each target: logits [..., V] and int targets [...] → [...]. It is 0 where the target is
/// −100, which marks prompts and padding.
Tensor token_log_probabilities(const Tensor& logits, const Tensor& targets);

/// log p(answer | prompt), the sum over the tokens of the answer: logits [B, T, V] of the next
/// token at each position and int targets [B, T] → [B]. A target is −100 where the next token does
/// not belong to the answer.
Tensor answer_log_probabilities(const Tensor& logits, const Tensor& targets);

/// A number for the chosen and for the rejected answer of each pair, [N] each: a reward, or a
/// log-probability.
struct PairValues {
  Tensor chosen, rejected;
};

/// −log σ(r_chosen − r_rejected), averaged over pairs. Its minimum is the model of Bradley and
/// Terry (1952), by which an answer is chosen with probability σ(r_chosen − r_rejected). A constant
/// that is added to all rewards has no effect. Christiano et al. 2017.
Tensor bradley_terry_loss(const PairValues& rewards);

/// β·(log π − log π_ref): the rewards for which π is the best policy, if a nat of KL(π‖π_ref) costs
/// β. They are defined up to a constant for each prompt. Rafailov et al. 2023. The margin of a pair
/// is the difference of its two rewards. `policy` and `reference` are log-probabilities of answers.
PairValues implicit_rewards(const PairValues& policy, const PairValues& reference, double beta);

/// Direct preference optimization: −log σ(β·((log π(y_w) − log π_ref(y_w)) − (log π(y_l) −
/// log π_ref(y_l)))), averaged over pairs. That is the loss of Bradley and Terry of the implicit
/// rewards. The gradient flows into the policy alone. Rafailov et al. 2023.
Tensor dpo_loss(const PairValues& policy, const PairValues& reference, double beta);

}  // namespace vitrine::nn
