// The tasks of learning from preferences, up to the best policy, which is known for small problems.
#include "nn/training/tasks/preferences.h"

#include <doctest/doctest.h>

#include <cmath>

#include "core/creation.h"
#include "core/random.h"
#include "nn/check_gradients.h"
#include "nn/losses/preference.h"
#include "nn/models/gpt.h"
#include "ops/elementwise.h"
#include "ops/loss.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/view.h"
#include "optim/schedule.h"
#include "tests/nn/training/tiny.h"
#include "tests/ops/reference.h"

using namespace vitrine;
using namespace vitrine::nn;
using namespace vitrine::nn::training;
using test::error_of;

namespace {

using Ids = std::vector<int64_t>;

Gpt small_model(int64_t context = 4) {
  manual_seed(3);
  Gpt model({.vocabulary = 4, .context = context, .width = 8, .layers = 1, .heads = 2});
  for (Parameter& p : model.parameters())
    if (p.shape().rank() > 1) p.assign(p.master() * 20);
  return model;
}

void train(const Task& task, int64_t steps, double rate) {
  TrainingOptions options = test::quiet(steps);
  options.weight_decay = 0, options.evaluate_every = steps;
  Trainer(task, optim::constant(rate), options).run();
}

/// log p of each token after the prompt {0}.
std::vector<double> log_p(Gpt& model) {
  const Tape::Pause pause;
  return log_softmax(model.forward(index_tensor(Ids{0}, {1, 1}))).values();
}

double divergence(Gpt& policy, Gpt& reference) {
  const auto p = log_p(policy), q = log_p(reference);
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i) sum += std::exp(p[i]) * (p[i] - q[i]);
  return sum;
}

/// log of p·e^(r/β), which sums to 1: the policy with the largest E r − β·KL.
std::vector<double> best_log_p(Gpt& reference, const std::vector<double>& rewards, double beta) {
  std::vector<double> result = log_p(reference);
  double sum = 0;
  for (size_t i = 0; i < result.size(); ++i) sum += std::exp(result[i] += rewards[i] / beta);
  for (double& x : result) x -= std::log(sum);
  return result;
}

const double kLog3 = std::log(3.0);

/// Answers 1, 2 and 3 to the prompt {0}, with the rewards 0, log 3 and 2·log 3. Of each two, the
/// better one is chosen as often as Bradley and Terry say: 15 or 18 times in 20.
Dataset<AnswerPair> all_pairs() {
  std::vector<AnswerPair> pairs;
  for (int64_t better = 2; better <= 3; ++better)
    for (int64_t worse = 1; worse < better; ++worse)
      for (int i = 0; i < 20; ++i) {
        const bool right = i < (better - worse == 1 ? 15 : 18);
        pairs.push_back({{0}, {right ? better : worse}, {right ? worse : better}});
      }
  return pairs;
}

}  // namespace

TEST_CASE("a batch of answers predicts the answers alone, given the prompts") {
  const std::vector<PromptAnswer> answers = {{{1, 2, 3}, {4, 5}}, {{6}, {7, 8, 9}}};
  const Batch batch = answer_batch(answers);
  CHECK(batch.tensors[0].values() == std::vector<double>{1, 2, 3, 4, 6, 7, 8, 0});
  CHECK(batch.tensors[1].values() == std::vector<double>{-100, -100, 4, 5, 7, 8, 9, -100});
  CHECK(batch.tokens == 5);
  CHECK(error_of([] {
          answer_batch(std::vector<PromptAnswer>{{{}, {1}}});
        }).find("a prompt has 0 tokens") != std::string::npos);
  CHECK(error_of([] {
          answer_batch(std::vector<PromptAnswer>{{{1}, {}}});
        }).find("its answer 0") != std::string::npos);
}

TEST_CASE("supervised fine-tuning minimizes the cross-entropy of answers, whatever the padding") {
  Gpt model = small_model();
  const Dataset<PromptAnswer> answers(std::vector<PromptAnswer>{{{0, 1}, {2, 3}}, {{1}, {3}}});
  const Task task = supervised_answers(model, answers, answers, {.batch = 2});
  const Batch batch = task.validation()[0];
  const auto log_p_of = [&](const Ids& text, int64_t next) {
    const Tensor logits = model.forward(index_tensor(text, {1, std::ssize(text)}));
    return log_softmax(logits).values()[static_cast<size_t>(4 * (std::ssize(text) - 1) + next)];
  };
  const double first = log_p_of({0, 1}, 2) + log_p_of({0, 1, 2}, 3), second = log_p_of({1}, 3);
  CHECK(task.loss(batch.tensors).item() == doctest::Approx(-(first + second) / 3).epsilon(1e-5));
  const auto given = log_probabilities_of(model, std::vector<PromptAnswer>{answers[0], answers[1]}).values();
  CHECK(given[0] == doctest::Approx(first).epsilon(1e-5));
  CHECK(given[1] == doctest::Approx(second).epsilon(1e-5));
  CHECK(task.setting.at("batch") == "2");
  CHECK(error_of([&] { supervised_answers(model, answers, answers, {.batch = 0}); }).find("batch is 0") !=
        std::string::npos);
}

TEST_CASE("DPO finds the best policy for each beta; with a small beta it drifts away") {
  Gpt reference = small_model();
  std::vector<double> distances;
  for (const double beta : {1., .5}) {
    Gpt policy = reference.clone();
    const Task task = direct_preference(policy, reference, all_pairs(), all_pairs(), beta, {.batch = 60});
    const Batch batch = task.validation()[0];
    CHECK(task.loss(batch.tensors).item() == doctest::Approx(std::log(2)));
    CHECK(task.metrics[1].of_batch(batch.tensors).sum == 0);  // margins
    train(task, 250, .02);
    const auto now = log_p(policy), best = best_log_p(reference, {0, 0, kLog3, 2 * kLog3}, beta);
    for (size_t i : {2, 3}) CHECK(std::abs((now[i] - now[1]) - (best[i] - best[1])) < .02);
    const WeightedSum right = task.metrics[0].of_batch(batch.tensors);
    CHECK(right.sum == 48);  // 15 + 15 + 18
    CHECK(right.weight == 60);
    distances.push_back(divergence(policy, reference));
  }
  CHECK_MESSAGE(distances[1] > 1.5 * distances[0], distances[0], " ", distances[1]);
}

TEST_CASE("a reward model learns rewards up to a constant, and orders answers") {
  Gpt body = small_model();
  RewardModel judge(body.options());
  judge.body.copy_from(body);
  const Task task = reward_modeling(judge, all_pairs(), all_pairs(), {.batch = 60});
  train(task, 200, .02);
  const std::vector<PromptAnswer> answers = {{{0}, {1}}, {{0}, {2}}, {{0}, {3}}};
  const auto rewards = learned_rewards(judge, answers).values();
  CHECK(std::abs(rewards[1] - rewards[0] - kLog3) < .03);
  CHECK(std::abs(rewards[2] - rewards[1] - kLog3) < .03);
  // A longer text in the same batch is padding for the others.
  const auto padded =
      learned_rewards(judge, std::vector<PromptAnswer>{answers[0], {{0, 1}, {2, 3}}}).values();
  CHECK(padded[0] == doctest::Approx(rewards[0]).epsilon(1e-5));
  // Padding also takes no place in a mixture of experts.
  GptOptions mixed = body.options();
  mixed.experts = {.count = 2, .capacity_factor = .5};
  manual_seed(3);
  RewardModel experts(mixed);
  for (Parameter& p : experts.parameters())
    if (p.shape().rank() > 1) p.assign(randn(p.shape()));
  const Tensor short_first = index_tensor(Ids{1, 1, 1, 2, 2, 2}, {6});
  const auto with_padding = [&](int64_t a, int64_t b, int64_t c) {
    return experts.forward(index_tensor(Ids{0, a, 1, b, 2, c, 0, 1, 1, 2, 2, 3}, {6, 2}), short_first);
  };
  for (int64_t a = 0; a < 64; ++a)
    CHECK(test::same_bits(with_padding(a % 4, a / 4 % 4, a / 16), with_padding(0, 0, 0)));
  const Tensor ids = index_tensor(Ids{0, 1, 0, 2}, {2, 2});
  CHECK(test::same_bits(judge.clone().forward(ids), judge.forward(ids, full({2}, 2, DType::int64))));
  judge.to(DType::float64);
  const auto report = check_gradients(judge,
                                      [&](const std::vector<Tensor>&) {
                                        return judge.forward(ids, index_tensor(Ids{1, 2}, {2}));
                                      },
                                      {});
  CHECK_MESSAGE(report.passed, to_string(report));
  CHECK(error_of([&] { judge.forward(ids, full({3}, 1, DType::int64)); }).find("wanted int64 [2]") !=
        std::string::npos);
  for (const int64_t wrong : {0, 3})
    CHECK(error_of([&] {
            judge.forward(ids, index_tensor(Ids{2, wrong}, {2}));
          }).find("wanted 1 to 2") != std::string::npos);
}

TEST_CASE("the policy gradient finds the best policy; without the KL penalty it drifts away") {
  Gpt reference = small_model();
  const std::vector<double> worth = {.5, 0, 1, 2};
  const auto reward = [&](std::span<const PromptAnswer> answers) {
    std::vector<double> all;
    for (const PromptAnswer& item : answers) all.push_back(worth[static_cast<size_t>(item.answer.at(0))]);
    return tensor(all, {std::ssize(all)}, DType::float32);
  };
  const Dataset<Ids> prompts(std::vector<Ids>{{0}});
  std::vector<double> distances;
  for (const double beta : {1., 0.}) {
    Gpt policy = reference.clone();
    const Task task =
        policy_gradient(policy, reference, prompts, prompts, reward,
                        {.batch = 128, .group = 128, .beta = beta, .clip = 0, .longest = 1, .end = 3});
    train(task, 150, .01);
    const auto now = log_p(policy);
    if (beta > 0) {
      const auto best = best_log_p(reference, worth, beta);
      for (size_t i = 0; i < 4; ++i) CHECK(std::abs(std::exp(now[i]) - std::exp(best[i])) < .05);
    } else {
      CHECK(std::exp(now[3]) > .95);
    }
    distances.push_back(divergence(policy, reference));
  }
  CHECK_MESSAGE(distances[1] > 2 * distances[0], distances[0], " ", distances[1]);
}

TEST_CASE("sampled answers are kept for some updates, and the loss is β·KL − reward where they are new") {
  Gpt reference = small_model(8), policy = reference.clone();
  const Dataset<Ids> prompts(std::vector<Ids>{{0}, {1, 2}, {3}});
  const auto reward = [](std::span<const PromptAnswer> answers) {
    std::vector<double> all;
    for (const PromptAnswer& item : answers) all.push_back(static_cast<double>(item.answer.size()));
    return tensor(all, {std::ssize(all)}, DType::float32);
  };
  const PolicyGradientOptions options{
      .batch = 6, .group = 2, .updates = 3, .beta = .5, .longest = 4, .end = 3, .seed = 1};
  for (Parameter& p : policy.parameters()) p.assign(p.master() * 1.2);
  const Task task = policy_gradient(policy, reference, prompts, prompts, reward, options);
  const auto ids = [&](int64_t index) { return task.batch(index).tensors[0].values(); };
  const auto first = ids(0);
  CHECK(ids(2) == first);
  CHECK(ids(3) != first);
  CHECK(ids(0) == first);  // depends on the number alone, as the policy is the same
  // They and their log-probabilities stay as they were when the policy changes.
  const Tensor kept = task.batch(0).tensors[2];
  for (Parameter& p : policy.parameters()) p.assign(p.master() * 1.1);
  CHECK(test::same_bits(task.batch(2).tensors[2], kept));
  const auto answers = sample_answers(policy, {{0}, {0}, {1, 2}, {1, 2}, {3}, {3}}, 4, 3, options.seed);
  double objective = 0;
  const auto now = log_probabilities_of(policy, answers).values(),
             before = log_probabilities_of(reference, answers).values();
  for (size_t i = 0; i < 6; ++i) {
    CHECK(answers[i].answer.size() <= 4);
    for (size_t t = 0; t + 1 < answers[i].answer.size(); ++t) CHECK(answers[i].answer[t] != 3);
    objective += (static_cast<double>(answers[i].answer.size()) - .5 * (now[i] - before[i])) / 6;
  }
  // Where the reward fails, there are no answers, and the next try samples them.
  bool fails = true;
  const auto failing = [&](std::span<const PromptAnswer> given) {
    check(!std::exchange(fails, false), "no reward");
    return reward(given);
  };
  const Task retried = policy_gradient(policy, reference, prompts, prompts, failing, options);
  CHECK(error_of([&] { retried.batch(0); }) == "no reward");
  CHECK(retried.batch(0).tensors[0].values() == ids(0));
  CHECK(task.setting.at("longest") == "4");
  CHECK(task.setting.at("end") == "3");
  CHECK(task.setting.at("beta") == "0.5");
  const Batch batch = task.validation()[0];
  CHECK(batch.tokens == 6);
  CHECK(task.loss(batch.tensors).item() == doctest::Approx(-objective).epsilon(1e-5));
  for (const auto& [wrong, text] :
       {std::pair<PolicyGradientOptions, const char*>{{.batch = 6, .group = 1}, "groups of 1"},
        {{.batch = 6, .group = 4}, "a batch of 6 answers"},
        {{.batch = 6, .group = 2, .updates = 0}, "0 updates"}})
    CHECK(error_of([&, &o = wrong] {
            policy_gradient(policy, reference, prompts, prompts, reward, o);
          }).find(text) != std::string::npos);
}
