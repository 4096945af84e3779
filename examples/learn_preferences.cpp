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
#include "examples/learn_preferences_judge.h"
#include "examples/learn_preferences_page.h"
#include "nn/training/checkpoint.h"

using namespace vitrine;
using namespace vitrine::nn;
using namespace vitrine::examples;
using synthetic::Part;

namespace {

GptOptions with_vocabulary(GptOptions options, int64_t vocabulary) {
  options.vocabulary = vocabulary;
  return options;
}

class Learning {
 public:
  explicit Learning(const PreferenceSettings& s)
      : s_(s),
        imitation_(with_vocabulary(s.model, texts_.tokenizer.size())),
        rewards_(imitation_.options()),
        judge_(texts_, imitation_, rewards_, s.count) {}

  PreferenceRuns run() {
    PreferenceRuns runs;
    const training::AnswerBatches batches = {s_.run.batch, s_.run.seed};
    const auto pairs = texts_.pairs(Part::training), held_out = texts_.pairs(Part::held_out);
    training::Task imitate = training::supervised_answers(imitation_, texts_.answers(Part::training, 20000),
                                                          texts_.answers(Part::held_out, 500), batches);
    training::keep_tokenizer(imitate, texts_.tokenizer);
    runs.imitation = train(imitate, s_.stage(s_.imitation_steps, s_.run.schedule.lr), "imitation");
    rewards_.body.copy_from(imitation_);
    runs.rewards = train(training::reward_modeling(rewards_, pairs, held_out, batches),
                         s_.stage(s_.judge_steps, s_.judge_lr), "reward model");
    runs.right_order = judge_.right_order(held_out);
    judge_.compare_with(imitation_);
    runs.policies.push_back(
        {.name = "imitation", .last = judge_.judged(imitation_), .answers = judge_.shown(imitation_)});
    for (const double beta : s_.dpo_betas)
      runs.policies.push_back(learn(fmt::format("DPO, beta {}", beta), beta, s_.dpo_lr, [&](Gpt& policy) {
        return training::direct_preference(policy, imitation_, pairs, held_out, beta, batches);
      }));
    for (const double beta : s_.policy_betas)
      runs.policies.push_back(
          learn(fmt::format("policy gradient, beta {}", beta), beta, s_.policy_lr, [&](Gpt& policy) {
            return training::policy_gradient(
                policy, imitation_, texts_.prompts(Part::training, 10000), texts_.prompts(Part::held_out, 50),
                [this](auto answers) { return training::learned_rewards(rewards_, answers); },
                s_.policy_gradient(beta, texts_.end));
          }));
    return runs;
  }

 private:
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
                                    if (first) *now = judge_.judged(policy);
                                    return (*now).*value;
                                  },
                              .format = "{:.3f}"});
    };
    metric("true reward", &Judgement::reward, true, true);
    metric("learned reward", &Judgement::learned, true, false);
    metric("win rate", &Judgement::wins, true, false);
    metric("KL", &Judgement::divergence, false, false);
    report::RunRecord record = train(task, s_.stage(s_.policy_steps, lr), name);
    return {name, beta, *now, std::move(record), judge_.shown(policy)};
  }

  const PreferenceSettings& s_;
  const PreferenceTexts texts_;
  Gpt imitation_;
  RewardModel rewards_;
  PolicyJudge judge_;
};

}  // namespace

int main(int argc, char** argv) {
  return run_model_program("learn_preferences", "Learns from preferences: imitation, DPO, policy gradient.",
                           "  learn_preferences\n  learn_preferences --policy-betas 1,0.3,0",
                           PreferenceSettings(), argc, argv,
                           [](const PreferenceSettings& s, const std::string& title) {
                             manual_seed(s.run.seed);
                             write_results(s.run, title, Learning(s).run());
                           });
}
