#include "nn/losses/policy_gradient.h"

#include <cmath>

#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace vitrine::nn {

Tensor penalized_rewards(const Tensor& rewards, const Tensor& policy, const Tensor& reference, double beta) {
  check(rewards.rank() == 1 && policy.shape() == rewards.shape() && reference.shape() == rewards.shape(),
        "penalized_rewards: the rewards are {}, and the log-probabilities of the policy {} and of the "
        "reference {}, wanted [B] three times",
        rewards.shape(), policy.shape(), reference.shape());
  check(beta >= 0 && std::isfinite(beta), "penalized_rewards: beta is {}, wanted at least 0", beta);
  return rewards - beta * (policy - reference);
}

Tensor leave_one_out_advantages(const Tensor& rewards, int64_t group) {
  check(group >= 2, "leave_one_out_advantages: a group has {} rewards, wanted at least 2", group);
  check(rewards.rank() == 1 && rewards.numel() > 0 && rewards.numel() % group == 0,
        "leave_one_out_advantages: the rewards are {}, wanted [B] with B a multiple of the group's {}",
        rewards.shape(), group);
  const Tensor groups = reshape(rewards, {-1, group});
  // R − (sum − R)/(k − 1) = (R − mean)·k/(k − 1)
  const double factor = static_cast<double>(group) / static_cast<double>(group - 1);
  return reshape(factor * (groups - mean(groups, {1}, KeepAxes::yes)), rewards.shape());
}

Tensor policy_gradient_loss(const Tensor& policy, const Tensor& sampled, const Tensor& advantages,
                            double clip) {
  check(policy.rank() == 2 && policy.size(0) > 0 && sampled.shape() == policy.shape() &&
            advantages.shape() == Shape{policy.size(0)},
        "policy_gradient_loss: the log-probabilities are {} now and {} when sampled, and the advantages are "
        "{}, wanted [B, T] twice and [B]",
        policy.shape(), sampled.shape(), advantages.shape());
  check(clip >= 0 && clip < 1, "policy_gradient_loss: clip is {}, wanted a number in [0, 1)", clip);
  const Tensor change = expm1(policy - detach(sampled)), a = unsqueeze(detach(advantages), 1);
  const Tensor gain = change * a;
  const Tensor kept = clip == 0 ? gain : minimum(gain, clamp(change, -clip, clip) * a);
  return -mean(sum(kept, {1}));
}

}  // namespace vitrine::nn
