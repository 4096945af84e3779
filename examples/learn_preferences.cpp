// Reinforcement from preferences in small: a Gpt imitates answers, and then learns to answer as
// guests prefer, in two ways: by direct preference optimization (DPO), and by a reward model and a
// policy gradient.
//
//   learn_preferences
//   learn_preferences --dpo-betas 1,0.3,0.1 --policy-betas 1,0.3,0.1,0
//
// The data are generated (nn/data/synthetic/preferences.h), so the true reward of every answer and
// the best possible policies are known. β is the price of a nat of KL(policy‖imitation).
#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "examples/learn_preferences_data.h"
#include "examples/learn_preferences_page.h"
#include "nn/training/checkpoint.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"

using namespace vitrine;
using namespace vitrine::nn;
using namespace vitrine::examples;
using synthetic::Part;
using training::PromptAnswer;

namespace {

constexpr uint64_t kUsual = 11, kAnswers = 13;  // seeds of sampled answers

GptOptions with_vocabulary(GptOptions options, int64_t vocabulary) {
  options.vocabulary = vocabulary;
  return options;
}

class Learning {
 public:
  explicit Learning(const PreferenceSettings& s)
      : s_(s), imitation_(with_vocabulary(s.model, texts_.tokenizer.size())), judge_(imitation_.options()) {
    for (const auto& prompt : texts_.prompts(Part::held_out, s.count)) prompts_.push_back(prompt);
  }

  report::Page run() {
    PreferenceRuns runs;
    const AnswerBatches batches = {s_.run.batch, s_.run.seed};
    const auto pairs = texts_.pairs(Part::training), held_out = texts_.pairs(Part::held_out);
    training::Task imitate = training::supervised_answers(imitation_, texts_.answers(Part::training, 20000),
                                                          texts_.answers(Part::held_out, 500), batches);
    training::keep_tokenizer(imitate, texts_.tokenizer);
    runs.imitation = train(imitate, s_.stage(s_.imitation_steps, s_.run.schedule.lr), "imitation");
    judge_.body.copy_from(imitation_);
    runs.judge = train(training::reward_modeling(judge_, pairs, held_out, batches),
                       s_.stage(s_.judge_steps, s_.judge_lr), "reward model");
    runs.right_order = right_order(held_out);
    for (const PromptAnswer& item : sampled(imitation_, kUsual)) usual_.push_back(texts_.reward(item));
    runs.policies.push_back({.name = "imitation", .last = judged(imitation_), .answers = shown(imitation_)});
    for (const double beta : s_.dpo_betas)
      runs.policies.push_back(learn(fmt::format("DPO, beta {}", beta), beta, s_.dpo_lr, [&](Gpt& policy) {
        return training::direct_preference(policy, imitation_, pairs, held_out, beta, batches);
      }));
    for (const double beta : s_.policy_betas)
      runs.policies.push_back(
          learn(fmt::format("policy gradient, beta {}", beta), beta, s_.policy_lr, [&](Gpt& policy) {
            return training::policy_gradient(
                policy, imitation_, texts_.prompts(Part::training, 10000), texts_.prompts(Part::held_out, 50),
                [this](auto answers) { return training::learned_rewards(judge_, answers); },
                {.batch = s_.run.batch,
                 .group = s_.group,
                 .updates = s_.updates,
                 .beta = beta,
                 .clip = s_.clip,
                 .longest = kLongest,
                 .end = texts_.end,
                 .seed = s_.run.seed});
          }));
    return page_of(runs);
  }

 private:
  using AnswerBatches = training::AnswerBatches;

  std::vector<PromptAnswer> sampled(Gpt& policy, uint64_t seed) const {
    return training::sample_answers(policy, prompts_, kLongest, texts_.end, seed);
  }

  /// The share of pairs of different true rewards that the learned rewards order as the true ones
  /// do.
  double right_order(const Dataset<training::AnswerPair>& pairs) {
    double right = 0, all = 0;
    for (const training::AnswerPair& pair : pairs) {
      const std::vector<PromptAnswer> both = {{pair.prompt, pair.chosen}, {pair.prompt, pair.rejected}};
      const double difference = texts_.reward(both[0]) - texts_.reward(both[1]);
      if (difference == 0) continue;
      const auto learned = training::learned_rewards(judge_, both).values();
      right += (learned[0] > learned[1]) == (difference > 0) ? 1 : 0, ++all;
    }
    return right / all;
  }

  /// Judges a policy by one answer to each held-out prompt.
  Judgement judged(Gpt& policy) {
    const std::vector<PromptAnswer> answers = sampled(policy, kAnswers);
    Judgement result;
    for (size_t i = 0; i < answers.size(); ++i) {
      const double reward = texts_.reward(answers[i]), share = 1 / static_cast<double>(answers.size());
      result.reward += reward * share;
      result.wins += (reward > usual_[i] ? 1 : reward == usual_[i] ? 0.5 : 0) * share;
    }
    result.learned = mean(training::learned_rewards(judge_, answers)).item();
    result.divergence = mean(training::log_probabilities_of(policy, answers) -
                             training::log_probabilities_of(imitation_, answers))
                            .item();
    return result;
  }

  /// Some of these answers: prompt, answer and true reward.
  std::vector<std::vector<std::string>> shown(Gpt& policy) const {
    std::vector<std::vector<std::string>> rows;
    for (const PromptAnswer& item : sampled(policy, kAnswers)) {
      rows.push_back(
          {texts_.text(item.prompt), texts_.text(item.answer), fmt::format("{}", texts_.reward(item))});
      if (rows.size() == 5) break;
    }
    return rows;
  }

  /// Trains a copy of the imitation for the task that `make` gives it.
  template <class Make>
  PolicyRun learn(const std::string& name, double beta, double lr, const Make& make) {
    Gpt policy = imitation_.clone();
    training::Task task = make(policy);
    training::keep_tokenizer(task, texts_.tokenizer);
    // The first metric judges, and the others are of the same answers.
    const auto now = std::make_shared<Judgement>();
    const auto metric = [&](const char* title, double Judgement::*value, bool more_is_better, bool first) {
      task.metrics.push_back({.name = title,
                              .more_is_better = more_is_better,
                              .of_split =
                                  [=, this, &policy](double) {
                                    if (first) *now = judged(policy);
                                    return (*now).*value;
                                  },
                              .format = "{:.3f}"});
    };
    metric("true reward", &Judgement::reward, true, true);
    metric("learned reward", &Judgement::learned, true, false);
    metric("win rate", &Judgement::wins, true, false);
    metric("KL", &Judgement::divergence, false, false);
    report::RunRecord record = train(task, s_.stage(s_.policy_steps, lr), name);
    return {name, beta, *now, std::move(record), shown(policy)};
  }

  const PreferenceSettings& s_;
  const PreferenceTexts texts_;
  Gpt imitation_;
  RewardModel judge_;
  std::vector<std::vector<int64_t>> prompts_;
  std::vector<double> usual_;  ///< true rewards of answers of the imitation to the prompts
};

}  // namespace

int main(int argc, char** argv) {
  return run_model_program("learn_preferences", "Learns from preferences: imitation, DPO, policy gradient.",
                           "  learn_preferences\n  learn_preferences --policy-betas 1,0.3,0",
                           PreferenceSettings(), argc, argv, [](const PreferenceSettings& s) {
                             manual_seed(s.run.seed);
                             return Learning(s).run();
                           });
}
