// Judges the policies of learn_preferences by their answers to held-out prompts.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "examples/learn_preferences_data.h"
#include "examples/learn_preferences_page.h"
#include "nn/models/reward_model.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"

namespace vitrine::examples {

/// Judges by true rewards, by those that the reward model has learned, and by comparison with the
/// imitation.
class PolicyJudge {
 public:
  PolicyJudge(const PreferenceTexts& texts, nn::Gpt& imitation, nn::RewardModel& rewards, int64_t count)
      : texts_(texts), imitation_(imitation), rewards_(rewards) {
    for (const auto& prompt : texts.prompts(nn::synthetic::Part::held_out, count)) prompts_.push_back(prompt);
  }

  /// Samples the answers of the imitation with which those of policies are compared.
  void compare_with(nn::Gpt& imitation) {
    for (const auto& item : sampled(imitation, kUsual)) usual_.push_back(texts_.reward(item));
  }

  /// The share of pairs of different true rewards that the learned rewards order as the true ones
  /// do.
  double right_order(const nn::Dataset<nn::training::AnswerPair>& pairs) const {
    double right = 0, all = 0;
    for (const nn::training::AnswerPair& pair : pairs) {
      const std::vector<nn::training::PromptAnswer> both = {{pair.prompt, pair.chosen},
                                                            {pair.prompt, pair.rejected}};
      const double difference = texts_.reward(both[0]) - texts_.reward(both[1]);
      if (difference == 0) continue;
      const auto learned = nn::training::learned_rewards(rewards_, both).values();
      right += (learned[0] > learned[1]) == (difference > 0) ? 1 : 0, ++all;
    }
    return right / all;
  }

  /// Judges a policy by one answer to each held-out prompt.
  Judgement judged(nn::Gpt& policy) const {
    const auto answers = sampled(policy, kAnswers);
    Judgement result;
    for (size_t i = 0; i < answers.size(); ++i) {
      const double reward = texts_.reward(answers[i]), share = 1 / static_cast<double>(answers.size());
      result.reward += reward * share;
      result.wins += (reward > usual_[i] ? 1 : reward == usual_[i] ? 0.5 : 0) * share;
    }
    result.learned = mean(nn::training::learned_rewards(rewards_, answers)).item();
    result.divergence = mean(nn::training::log_probabilities_of(policy, answers) -
                             nn::training::log_probabilities_of(imitation_, answers))
                            .item();
    return result;
  }

  /// Some of these answers: prompt, answer and true reward.
  std::vector<std::vector<std::string>> shown(nn::Gpt& policy) const {
    std::vector<std::vector<std::string>> rows;
    for (const auto& item : sampled(policy, kAnswers)) {
      rows.push_back(
          {texts_.text(item.prompt), texts_.text(item.answer), fmt::format("{}", texts_.reward(item))});
      if (rows.size() == 5) break;
    }
    return rows;
  }

 private:
  static constexpr uint64_t kUsual = 11, kAnswers = 13;  // seeds of sampled answers

  std::vector<nn::training::PromptAnswer> sampled(nn::Gpt& policy, uint64_t seed) const {
    return nn::training::sample_answers(policy, prompts_, kLongest, texts_.end, seed);
  }

  const PreferenceTexts& texts_;
  nn::Gpt& imitation_;
  nn::RewardModel& rewards_;
  std::vector<std::vector<int64_t>> prompts_;
  std::vector<double> usual_;  ///< true rewards of answers of the imitation to the prompts
};

}  // namespace vitrine::examples
