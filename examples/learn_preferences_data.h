// The options of learn_preferences, and its data as tokens.
#pragma once

#include <string>
#include <vector>

#include "examples/model_runs.h"
#include "nn/data/synthetic/preferences.h"
#include "nn/models/gpt.h"
#include "nn/text/words.h"
#include "nn/training/tasks/preferences.h"

namespace vitrine::examples {

constexpr int64_t kLongest = 12;  // tokens of an answer; the longest demonstration has nine

struct PreferenceSettings {
  nn::GptOptions model = {.context = 7 + kLongest, .width = 64, .layers = 2};
  RunSettings run = {
      .training = {.evaluate_every = 50, .weight_decay = 0}, .schedule = {.lr = 3e-3}, .batch = 64};
  int64_t imitation_steps = 1000, judge_steps = 2000, policy_steps = 400, group = 4, updates = 2, count = 400;
  double judge_lr = 1e-3, dpo_lr = 3e-5, policy_lr = 3e-4, clip = 0.2;
  std::vector<double> dpo_betas = {1, 0.1}, policy_betas = {1, 0};

  void list(nn::OptionList& o) {
    model.list(o);
    for (const char* name : {"vocabulary", "context"}) o.remove(name);
    run.list(o);
    for (const char* name : {"steps", "lr"}) o.remove(name);
    o.group("Stages");
    o("imitation-steps", imitation_steps, "steps of supervised fine-tuning")
        .at_least(1)
        .decides(nn::Role::schedule);
    o("judge-steps", judge_steps, "steps of the reward model").at_least(1).decides(nn::Role::schedule);
    o("policy-steps", policy_steps, "steps of DPO and of the policy gradient")
        .at_least(1)
        .decides(nn::Role::schedule);
    o("lr", run.schedule.lr, "learning rate of supervised fine-tuning").above(0);
    o("judge-lr", judge_lr, "learning rate of the reward model").above(0).decides(nn::Role::schedule);
    o("dpo-lr", dpo_lr, "learning rate of DPO").above(0).decides(nn::Role::schedule);
    o("policy-lr", policy_lr, "learning rate of the policy gradient").above(0).decides(nn::Role::schedule);
    o("dpo-betas", dpo_betas, "values of beta for DPO").above(0).decides(nn::Role::files);
    o("policy-betas", policy_betas, "values of beta for the policy gradient; 0: no KL penalty")
        .at_least(0)
        .decides(nn::Role::files);
    o("group", group, "sampled answers to each prompt").at_least(2);
    o("updates", updates, "policy gradient steps with the same answers").at_least(1);
    o("ratio-clip", clip, "of the ratios of probabilities (PPO); 0: no clipping").at_least(0).below(1);
    o("count", count, "held-out prompts by which policies are judged").at_least(1).decides(nn::Role::files);
  }

  /// The settings of one stage.
  PreferenceSettings stage(int64_t steps, double lr) const {
    PreferenceSettings s = *this;
    s.run.training.steps = steps, s.run.schedule.lr = lr;
    return s;
  }

  /// Answers end with the token `end`.
  nn::training::PolicyGradientOptions policy_gradient(double beta, int64_t end) const {
    return {.batch = run.batch,
            .group = group,
            .updates = updates,
            .beta = beta,
            .clip = clip,
            .longest = kLongest,
            .end = end,
            .seed = run.seed};
  }
};

/// The generated texts as tokens. Each word is a token, and a full stop ends an answer.
class PreferenceTexts {
 public:
  using Ids = std::vector<int64_t>;

  Ids ids(const std::string& text) const {
    const nn::Tokens tokens = tokenizer.encode(text);
    return {tokens.begin(), tokens.end()};
  }
  std::string text(const Ids& tokens) const { return tokenizer.decode(tokens); }
  double reward(const nn::training::PromptAnswer& item) const {
    return nn::synthetic::true_reward(text(item.prompt), text(item.answer));
  }

  nn::Dataset<nn::training::PromptAnswer> answers(nn::synthetic::Part part, int64_t size) const {
    return nn::mapped(nn::synthetic::demonstrations(part, size), [this](const auto& item) {
      return nn::training::PromptAnswer{ids(item.prompt), ids(item.answer)};
    });
  }
  nn::Dataset<Ids> prompts(nn::synthetic::Part part, int64_t size) const {
    return nn::mapped(answers(part, size), [](const auto& item) { return item.prompt; });
  }
  nn::Dataset<nn::training::AnswerPair> pairs(nn::synthetic::Part part) const {
    const int64_t size = part == nn::synthetic::Part::training ? 20000 : 500;
    return nn::mapped(nn::synthetic::preferences(part, size), [this](const auto& item) {
      return nn::training::AnswerPair{ids(item.prompt), ids(item.chosen), ids(item.rejected)};
    });
  }

  const nn::PipelineTokenizer tokenizer = [] {
    std::vector<std::string> texts;
    for (const auto& item : nn::synthetic::demonstrations(nn::synthetic::Part::training, 2000))
      texts.push_back(item.prompt + " " + item.answer);
    return nn::whole_words(texts);
  }();
  const int64_t end = tokenizer.find(".").value();
};

}  // namespace vitrine::examples
