// Losses of preferences and policy gradients, against values by hand and exact expectations.
#include "nn/losses/preference.h"

#include <doctest/doctest.h>

#include <cmath>
#include <numbers>

#include "core/creation.h"
#include "core/gradcheck/check_gradients.h"
#include "nn/losses/policy_gradient.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/join.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/view.h"
#include "tests/ops/reference.h"

using namespace vitrine;
using namespace vitrine::nn;
using test::error_of;

namespace {

Tensor vector(std::initializer_list<double> values) { return tensor(values, DType::float64); }

double log_sigmoid(double x) { return -std::log1p(std::exp(-x)); }

}  // namespace

TEST_CASE("the log-probability of an answer is the sum over its tokens, without prompt and padding") {
  // The probabilities of three tokens at three positions of two rows.
  const Tensor p = tensor({.2, .3, .5, .1, .1, .8, .6, .2, .2, .5, .25, .25, .3, .3, .4, .7, .2, .1},
                          {2, 3, 3}, DType::float64);
  const Tensor targets = index_tensor(std::vector<int64_t>{-100, 2, 0, 1, -100, -100}, {2, 3});
  const Tensor logits = log(p) + 5.0;  // a constant has no effect
  const Tensor tokens = token_log_probabilities(logits, targets);
  CHECK(test::distance(tokens, tensor({0, std::log(.8), std::log(.6), std::log(.25), 0, 0}, {2, 3},
                                      DType::float64)) < 1e-12);
  CHECK(test::distance(answer_log_probabilities(logits, targets),
                       vector({std::log(.8 * .6), std::log(.25)})) < 1e-12);
  const auto report = check_gradients(
      [&](const std::vector<Tensor>& x) { return answer_log_probabilities(x[0], targets); }, {logits});
  CHECK_MESSAGE(report.passed, to_string(report));
  CHECK(error_of([&] {
          answer_log_probabilities(select(logits, 0, 0), targets);
        }).find("wanted [B, T, V] and [B, T]") != std::string::npos);
}

TEST_CASE("Bradley and Terry: −log σ of the difference, with gradients that part the two rewards") {
  const Tensor chosen = vector({2, -1}), rejected = vector({.5, 1});
  CHECK(bradley_terry_loss({chosen, rejected}).item() ==
        doctest::Approx(-(log_sigmoid(1.5) + log_sigmoid(-2)) / 2).epsilon(1e-12));
  CHECK(bradley_terry_loss({chosen, chosen}).item() == doctest::Approx(std::numbers::ln2).epsilon(1e-12));
  CHECK(bradley_terry_loss({chosen + 9.0, rejected + 9.0}).item() ==
        doctest::Approx(bradley_terry_loss({chosen, rejected}).item()));
  CHECK(bradley_terry_loss({vector({-1000}), vector({1000})}).item() == doctest::Approx(2000));
  const auto loss = [](const std::vector<Tensor>& x) { return bradley_terry_loss({x[0], x[1]}); };
  const auto report = check_gradients(loss, {chosen, rejected});
  CHECK_MESSAGE(report.passed, to_string(report));
  Tape tape;
  tape.watch(chosen), tape.watch(rejected);
  const auto gradients = tape.gradient(loss({chosen, rejected}), {chosen, rejected});
  // −σ(−difference)/N, and its negative
  CHECK(test::distance(gradients[0], vector({-.5 / (1 + std::exp(1.5)), -.5 / (1 + std::exp(-2))})) < 1e-12);
  CHECK(test::distance(gradients[1], -gradients[0]) < 1e-12);
  CHECK(error_of([&] {
          bradley_terry_loss({chosen, vector({1})});
        }).find("wanted [N] twice") != std::string::npos);
  CHECK(error_of([&] {
          bradley_terry_loss({zeros({0}), zeros({0})});
        }).find("at least one pair") != std::string::npos);
}

TEST_CASE("DPO: the loss of implicit rewards, whose gradient is β times that of the rewards") {
  const PairValues policy = {vector({-2, -3}), vector({-4, -1})},
                   reference = {vector({-3, -2.5}), vector({-3.5, -2})};
  const double beta = .4;
  // log π − log π_ref is 1 and −0.5 for chosen answers, −0.5 and 1 for rejected ones
  const PairValues rewards = implicit_rewards(policy, reference, beta);
  CHECK(test::distance(rewards.chosen - rewards.rejected, vector({.6, -.6})) < 1e-12);
  CHECK(dpo_loss(policy, reference, beta).item() ==
        doctest::Approx(-(log_sigmoid(.6) + log_sigmoid(-.6)) / 2).epsilon(1e-12));
  CHECK(dpo_loss(policy, policy, beta).item() == doctest::Approx(std::numbers::ln2).epsilon(1e-12));
  const auto loss = [&](const std::vector<Tensor>& x) { return dpo_loss({x[0], x[1]}, reference, beta); };
  const auto report = check_gradients(loss, {policy.chosen, policy.rejected});
  CHECK_MESSAGE(report.passed, to_string(report));
  Tape tape;
  for (const PairValues* values : {&policy, &reference})
    tape.watch(values->chosen), tape.watch(values->rejected);
  const auto gradients =
      tape.gradient(dpo_loss(policy, reference, beta),
                    {policy.chosen, policy.rejected, reference.chosen, reference.rejected});
  CHECK(test::distance(gradients[0],
                       vector({-.5 * beta / (1 + std::exp(.6)), -.5 * beta / (1 + std::exp(-.6))})) < 1e-12);
  CHECK(test::distance(gradients[1], -gradients[0]) < 1e-12);
  CHECK(max(abs(gradients[2]) + abs(gradients[3])).item() == 0);
  CHECK(error_of([&] { dpo_loss(policy, reference, 0); }).find("beta is 0") != std::string::npos);
  CHECK(error_of([&] {
          dpo_loss(policy, {vector({1}), vector({1})}, 1);
        }).find("has 2 pairs and") != std::string::npos);
}

TEST_CASE("advantages: the penalty of each nat, and the mean of the other answers as the baseline") {
  const Tensor rewards =
      penalized_rewards(vector({1, 2, 3, 4}), vector({-1, -1, -2, -2}), vector({-3, -1, -1, -2}), .5);
  CHECK(test::distance(rewards, vector({0, 2, 3.5, 4})) < 1e-12);
  CHECK(test::distance(leave_one_out_advantages(rewards, 2), vector({-2, 2, -.5, .5})) < 1e-12);
  CHECK(test::distance(leave_one_out_advantages(rewards, 4), vector({-9.5 / 3, -.5, 1.5, 6.5 / 3})) < 1e-12);
  CHECK(error_of([&] { leave_one_out_advantages(rewards, 1); }).find("wanted at least 2") !=
        std::string::npos);
  CHECK(error_of([&] { leave_one_out_advantages(rewards, 3); }).find("a multiple of the group's 3") !=
        std::string::npos);
  CHECK(error_of([&] { penalized_rewards(rewards, rewards, vector({1}), 1); }).find("three times") !=
        std::string::npos);
  CHECK(error_of([&] { penalized_rewards(rewards, rewards, rewards, -1); }).find("beta is -1") !=
        std::string::npos);
}

TEST_CASE("the gradient of a policy is that of REINFORCE, and is cut where PPO cuts it") {
  const Tensor sampled = tensor({-1, -2, -.5, -1.5}, {2, 2}, DType::float64), advantages = vector({2, -3});
  const auto gradient = [&](const Tensor& policy, double clip) {
    Tape tape;
    tape.watch(policy), tape.watch(sampled), tape.watch(advantages);
    const auto all =
        tape.gradient(policy_gradient_loss(policy, sampled, advantages, clip), {policy, sampled, advantages});
    CHECK(max(abs(all[1])).item() + max(abs(all[2])).item() == 0);
    return all[0];
  };
  // −A/B for each token
  const Tensor reinforce = tensor({-1, -1, 1.5, 1.5}, {2, 2}, DType::float64);
  CHECK(policy_gradient_loss(sampled, sampled, advantages, .2).item() == 0);
  for (const double clip : {0., .2}) CHECK(test::distance(gradient(clone(sampled), clip), reinforce) < 1e-12);
  // Each ratio beyond 1 ± 0.2, once in each direction for each sign of the advantage
  const Tensor ratios = tensor({1.5, .5, 1.5, .5}, {2, 2}, DType::float64);
  const Tensor moved = sampled + log(ratios);
  CHECK(policy_gradient_loss(moved, sampled, advantages).item() == doctest::Approx(0).epsilon(1e-12));
  CHECK(test::distance(gradient(moved, 0), reinforce * ratios) < 1e-12);
  CHECK(test::distance(gradient(moved, .2), tensor({0, -.5, 2.25, 0}, {2, 2}, DType::float64)) < 1e-12);
  // −(min(.5·2, .2·2) + min(−.5·2, −.2·2) + min(−.5·3, −.2·3) + min(.5·3, .2·3))/2
  CHECK(policy_gradient_loss(moved, sampled, advantages, .2).item() ==
        doctest::Approx(-(.4 - 1 - 1.5 + .6) / 2).epsilon(1e-12));
  for (const double clip : {0., .2}) {
    const auto report = check_gradients(
        [&](const std::vector<Tensor>& x) { return policy_gradient_loss(x[0], sampled, advantages, clip); },
        {moved});
    CHECK_MESSAGE(report.passed, to_string(report));
  }
  CHECK(error_of([&] { policy_gradient_loss(sampled, sampled, vector({1})); }).find("wanted [B, T] twice") !=
        std::string::npos);
  CHECK(error_of([&] { policy_gradient_loss(sampled, sampled, advantages, 1); }).find("clip is 1") !=
        std::string::npos);
}

TEST_CASE("the mean policy gradient over all answers is the gradient of reward − β·KL") {
  const Tensor weights = vector({.3, -.5, .8}), rewards = vector({1, -2, .5}),
               reference = log_softmax(vector({.1, .6, -.4}));
  const double beta = .7;
  const auto p = softmax(weights).values();
  // Each pair of answers of one token, by its probability
  Tensor expected = zeros_like(weights);
  for (int64_t a = 0; a < 3; ++a)
    for (int64_t b = 0; b < 3; ++b) {
      const Tensor both = index_tensor(std::vector{a, b}, {2});
      Tape tape;
      tape.watch(weights);
      const Tensor now = index_select(log_softmax(weights), 0, both);
      const Tensor penalized = penalized_rewards(index_select(rewards, 0, both), detach(now),
                                                 index_select(reference, 0, both), beta);
      const Tensor token = unsqueeze(now, 1);
      const Tensor loss = policy_gradient_loss(token, token, leave_one_out_advantages(penalized, 2));
      expected = expected +
                 p[static_cast<size_t>(a)] * p[static_cast<size_t>(b)] * tape.gradient(loss, {weights})[0];
    }
  Tape tape;
  tape.watch(weights);
  const Tensor log_p = log_softmax(weights);
  const Tensor objective = sum(exp(log_p) * (rewards - beta * (log_p - reference)));
  CHECK(test::distance(expected, tape.gradient(-objective, {weights})[0]) < 1e-12);
}
