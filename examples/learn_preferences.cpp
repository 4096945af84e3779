// Reinforcement from preferences in small: a Gpt imitates answers, and then learns to answer as
// guests prefer, in two ways: by direct preference optimization (DPO), and by a reward model and a
// policy gradient.
//
//   learn_preferences
//   learn_preferences --dpo-betas 1,0.3,0.1 --policy-betas 1,0.3,0.1,0
//
// The data are generated (nn/data/synthetic/preferences.h), so the true reward of every answer and
// the best possible policy are known. β is the price of a nat of KL(policy‖imitation).
#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "examples/learn_preferences_page.h"
#include "examples/model_runs.h"
#include "nn/data/synthetic/preferences.h"
#include "nn/models/gpt.h"
#include "nn/text/words.h"
#include "nn/training/checkpoint.h"
#include "nn/training/tasks/preferences.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"

using namespace vitrine;
using namespace vitrine::nn;
using namespace vitrine::examples;
using synthetic::Demonstration, synthetic::demonstrations, synthetic::Part, synthetic::Preference,
    synthetic::preferences, synthetic::true_reward;
using training::AnswerPair, training::PromptAnswer;

namespace {

constexpr int64_t kLongest = 12;  // tokens of an answer; the longest demonstration has nine

struct Settings {
  GptOptions model = {.context = 7 + kLongest, .width = 64, .layers = 2};
  RunSettings run = {
      .training = {.evaluate_every = 50, .weight_decay = 0}, .schedule = {.lr = 3e-3}, .batch = 64};
  int64_t imitation_steps = 600, judge_steps = 600, policy_steps = 400, group = 4, updates = 2, count = 400;
  double policy_lr = 5e-4, clip = 0.2;
  std::vector<double> dpo_betas = {1, 0.1}, policy_betas = {1, 0};

  void list(OptionList& o) {
    model.list(o);
    for (const char* name : {"vocabulary", "context"}) o.remove(name);
    run.list(o);
    for (const char* name : {"steps", "lr"}) o.remove(name);
    o.group("Stages");
    o("imitation-steps", imitation_steps, "steps of supervised fine-tuning").at_least(1);
    o("judge-steps", judge_steps, "steps of the reward model").at_least(1);
    o("policy-steps", policy_steps, "steps of DPO and of the policy gradient").at_least(1);
    o("lr", run.schedule.lr, "learning rate of supervised fine-tuning and of the reward model").above(0);
    o("policy-lr", policy_lr, "learning rate of DPO and of the policy gradient").above(0);
    o("dpo-betas", dpo_betas, "values of beta for DPO").above(0);
    o("policy-betas", policy_betas, "values of beta for the policy gradient; 0: no KL penalty").at_least(0);
    o("group", group, "sampled answers to each prompt").at_least(2);
    o("updates", updates, "policy gradient steps with the same answers").at_least(1);
    o("clip", clip, "of the ratios of probabilities (PPO); 0: no clipping").at_least(0).below(1);
    o("count", count, "held-out prompts by which policies are judged").at_least(1).decides(Role::files);
  }

  /// The settings of one stage.
  Settings stage(int64_t steps, double lr) const {
    Settings s = *this;
    s.run.training.steps = steps, s.run.schedule.lr = lr;
    return s;
  }
};

class Program {
 public:
  explicit Program(const Settings& s)
      : s_(s),
        tokenizer_(words()),
        end_(tokenizer_.find(".").value()),
        imitation_(gpt_options()),
        judge_({.vocabulary = tokenizer_.size(),
                .pooler = true,
                .classes = 1,
                .stack = {.block = {.mixer = {.width = s.model.width,
                                              .heads = s.model.heads,
                                              .context = s.model.context}},
                          .layers = s.model.layers}}) {
    for (const Demonstration& item : demonstrations(Part::held_out, s.count, kJudging)) {
      prompts_.push_back(ids(item.prompt));
      asked_.push_back(item.prompt);
    }
  }

  report::Page run() {
    PreferenceRuns runs;
    runs.imitation = imitate();
    usual_ = true_rewards(training::sample_answers(imitation_, prompts_, kLongest, end_, kUsual));
    runs.policies.push_back(judged("imitation", 0, imitation_));
    runs.judge = train_judge();
    runs.right_order = right_order();
    runs.policies[0].last = judge(imitation_);
    for (const double beta : s_.dpo_betas) {
      Gpt policy = imitation_.clone();
      runs.policies.push_back(
          learn(fmt::format("DPO, beta {}", beta), beta, policy,
                training::direct_preference(policy, imitation_, pairs(Part::training), pairs(Part::held_out),
                                            beta, {s_.run.batch, s_.run.seed})));
    }
    for (const double beta : s_.policy_betas) {
      Gpt policy = imitation_.clone();
      const auto reward = [this](std::span<const PromptAnswer> all) {
        return training::learned_rewards(judge_, all);
      };
      runs.policies.push_back(
          learn(fmt::format("policy gradient, beta {}", beta), beta, policy,
                training::policy_gradient(policy, imitation_, prompts(Part::training, 10000),
                                          prompts(Part::held_out, 50), reward,
                                          {.batch = s_.run.batch,
                                           .group = s_.group,
                                           .updates = s_.updates,
                                           .beta = beta,
                                           .clip = s_.clip,
                                           .longest = kLongest,
                                           .end = end_,
                                           .seed = s_.run.seed})));
    }
    return page_of(runs);
  }

 private:
  static constexpr uint64_t kJudging = 7, kUsual = 11, kAnswers = 13;  // seeds

  static PipelineTokenizer words() {
    std::vector<std::string> texts;
    for (const Demonstration& item : demonstrations(Part::training, 2000))
      texts.push_back(item.prompt + " " + item.answer);
    return whole_words(texts);
  }
  GptOptions gpt_options() const {
    GptOptions options = s_.model;
    options.vocabulary = tokenizer_.size();
    return options;
  }
  std::vector<int64_t> ids(const std::string& text) const {
    const Tokens tokens = tokenizer_.encode(text);
    return {tokens.begin(), tokens.end()};
  }
  std::string text(const std::vector<int64_t>& tokens) const { return tokenizer_.decode(tokens); }

  Dataset<PromptAnswer> answers(Part part, int64_t size) const {
    return mapped(demonstrations(part, size), [this](const Demonstration& item) {
      return PromptAnswer{ids(item.prompt), ids(item.answer)};
    });
  }
  Dataset<std::vector<int64_t>> prompts(Part part, int64_t size) const {
    return mapped(answers(part, size), [](const PromptAnswer& item) { return item.prompt; });
  }
  Dataset<AnswerPair> pairs(Part part) const {
    return mapped(compared(part), [this](const Preference& item) {
      return AnswerPair{ids(item.prompt), ids(item.chosen), ids(item.rejected)};
    });
  }
  static Dataset<Preference> compared(Part part) {
    return preferences(part, part == Part::training ? 20000 : 500);
  }

  report::RunRecord imitate() {
    training::Task task =
        training::supervised_answers(imitation_, answers(Part::training, 20000), answers(Part::held_out, 500),
                                     {s_.run.batch, s_.run.seed});
    training::keep_tokenizer(task, tokenizer_);
    return train(task, s_.stage(s_.imitation_steps, s_.run.schedule.lr), "imitation");
  }
  report::RunRecord train_judge() {
    return train(training::reward_modeling(judge_, pairs(Part::training), pairs(Part::held_out),
                                           {s_.run.batch, s_.run.seed}),
                 s_.stage(s_.judge_steps, s_.run.schedule.lr), "reward model");
  }

  /// The share of held-out pairs of different true rewards that the learned rewards order as the
  /// true ones do.
  double right_order() {
    double right = 0, all = 0;
    for (const Preference& item : compared(Part::held_out)) {
      const double difference =
          true_reward(item.prompt, item.chosen) - true_reward(item.prompt, item.rejected);
      if (difference == 0) continue;
      const std::vector<PromptAnswer> both = {{ids(item.prompt), ids(item.chosen)},
                                              {ids(item.prompt), ids(item.rejected)}};
      const auto learned = training::learned_rewards(judge_, both).values();
      right += (learned[0] > learned[1]) == (difference > 0) ? 1 : 0, ++all;
    }
    return right / all;
  }

  std::vector<double> true_rewards(const std::vector<PromptAnswer>& all) const {
    std::vector<double> rewards;
    for (size_t i = 0; i < all.size(); ++i) rewards.push_back(true_reward(asked_[i], text(all[i].answer)));
    return rewards;
  }

  /// Judges a policy by one answer to each held-out prompt.
  Judgement judge(Gpt& policy) {
    const auto all = training::sample_answers(policy, prompts_, kLongest, end_, kAnswers);
    const auto rewards = true_rewards(all);
    Judgement result;
    const auto count = static_cast<double>(all.size());
    for (size_t i = 0; i < all.size(); ++i) {
      result.reward += rewards[i] / count;
      result.wins += (rewards[i] > usual_[i] ? 1 : rewards[i] == usual_[i] ? 0.5 : 0) / count;
    }
    result.learned = mean(training::learned_rewards(judge_, all)).item();
    result.divergence =
        mean(training::log_probabilities_of(policy, all) - training::log_probabilities_of(imitation_, all))
            .item();
    return result;
  }

  /// Answers of a policy to some held-out prompts, for the page.
  PolicyRun judged(const std::string& name, double beta, Gpt& policy) {
    PolicyRun run{.name = name, .beta = beta};
    const std::vector<std::vector<int64_t>> some(
        prompts_.begin(), prompts_.begin() + std::min<int64_t>(5, std::ssize(prompts_)));
    for (const PromptAnswer& item : training::sample_answers(policy, some, kLongest, end_, kAnswers)) {
      const std::string prompt = text(item.prompt), answer = text(item.answer);
      run.answers.push_back({prompt, answer, fmt::format("{}", true_reward(prompt, answer))});
    }
    return run;
  }

  PolicyRun learn(const std::string& name, double beta, Gpt& policy, training::Task task) {
    training::keep_tokenizer(task, tokenizer_);
    // The first metric judges, and all of them are of the same answers.
    const auto now = std::make_shared<Judgement>();
    const auto metric = [&](const char* title, double Judgement::*value, bool more_is_better, bool first) {
      task.metrics.push_back({.name = title,
                              .more_is_better = more_is_better,
                              .of_split =
                                  [=, this, &policy](double) {
                                    if (first) *now = judge(policy);
                                    return (*now).*value;
                                  },
                              .format = "{:.3f}"});
    };
    metric("true reward", &Judgement::reward, true, true);
    metric("learned reward", &Judgement::learned, true, false);
    metric("win rate", &Judgement::wins, true, false);
    metric("KL", &Judgement::divergence, false, false);
    report::RunRecord record = train(task, s_.stage(s_.policy_steps, s_.policy_lr), name);
    PolicyRun run = judged(name, beta, policy);
    run.last = *now;
    run.record = std::move(record);
    return run;
  }

  const Settings& s_;
  PipelineTokenizer tokenizer_;
  int64_t end_;
  Gpt imitation_;
  TextEncoder judge_;  ///< the reward model
  std::vector<std::vector<int64_t>> prompts_;
  std::vector<std::string> asked_;  ///< the same prompts as texts
  std::vector<double> usual_;       ///< true rewards of the imitation's answers
};

report::Page run(const Settings& s) {
  manual_seed(s.run.seed);
  return Program(s).run();
}

}  // namespace

int main(int argc, char** argv) {
  return run_model_program("learn_preferences", "Learns from preferences: imitation, DPO, policy gradient.",
                           "  learn_preferences\n  learn_preferences --policy-betas 1,0.3,0", Settings(),
                           argc, argv, run);
}
