#include "nn/losses/preference.h"

#include <cmath>

#include "ops/activation.h"
#include "ops/elementwise.h"
#include "ops/loss.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace vitrine::nn {
namespace {

void check_pairs(const char* op, const char* name, const PairValues& x) {
  check(x.chosen.rank() == 1 && x.chosen.shape() == x.rejected.shape() && x.chosen.numel() > 0,
        "{}: the {} of chosen answers are {} and those of rejected answers are {}, wanted [N] twice, with "
        "at least one pair",
        op, name, x.chosen.shape(), x.rejected.shape());
}

}  // namespace

Tensor token_log_probabilities(const Tensor& logits, const Tensor& targets) {
  return -cross_entropy(logits, targets, {.reduction = Reduction::none});
}

Tensor answer_log_probabilities(const Tensor& logits, const Tensor& targets) {
  check(logits.rank() == 3 && targets.rank() == 2,
        "answer_log_probabilities: the logits are {} and the targets are {}, wanted [B, T, V] and [B, T]",
        logits.shape(), targets.shape());
  return sum(token_log_probabilities(logits, targets), {1});
}

Tensor bradley_terry_loss(const PairValues& rewards) {
  check_pairs("bradley_terry_loss", "rewards", rewards);
  return mean(softplus(rewards.rejected - rewards.chosen));
}

PairValues implicit_rewards(const PairValues& policy, const PairValues& reference, double beta) {
  check_pairs("implicit_rewards", "log-probabilities", policy);
  check_pairs("implicit_rewards", "reference's log-probabilities", reference);
  check(policy.chosen.shape() == reference.chosen.shape(),
        "implicit_rewards: the policy has {} pairs and the reference has {}, wanted as many",
        policy.chosen.size(0), reference.chosen.size(0));
  check(beta > 0 && std::isfinite(beta), "implicit_rewards: beta is {}, wanted a positive number", beta);
  return {beta * (policy.chosen - detach(reference.chosen)),
          beta * (policy.rejected - detach(reference.rejected))};
}

Tensor dpo_loss(const PairValues& policy, const PairValues& reference, double beta) {
  return bradley_terry_loss(implicit_rewards(policy, reference, beta));
}

}  // namespace vitrine::nn
