// The tasks of learning from preferences: to imitate answers, to learn which answers are preferred,
// and to answer in the preferred way.
//
//   Trainer(supervised_answers(policy, demonstrations, …), …).run();
//   Gpt reference = policy.clone();
//   Trainer(direct_preference(policy, reference, pairs, …), …).run();
//
// In place of the last line, with a learned reward:
//
//   Trainer(reward_modeling(judge, pairs, …), …).run();
//   const auto reward = [&](const auto& answers) { return learned_rewards(judge, answers); };
//   Trainer(policy_gradient(policy, reference, prompts, held_out, reward, {.end = end}), …).run();
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "nn/data/dataset.h"
#include "nn/models/language_model.h"
#include "nn/models/reward_model.h"
#include "nn/training/task.h"

namespace vitrine::nn::training {

/// A prompt and an answer to it, as tokens. Neither is empty.
struct PromptAnswer {
  std::vector<int64_t> prompt, answer;
};

/// Two answers to one prompt, as tokens. None is empty.
struct AnswerPair {
  std::vector<int64_t> prompt, chosen, rejected;
};

/// A batch of answers for a language model: ids [B, T], which it reads, and targets [B, T], which
/// it has to predict: the tokens of the answers, and −100 in prompts and padding. `tokens` is the
/// number of tokens of answers. Errors: no answers, an empty prompt or answer.
Batch answer_batch(std::span<const PromptAnswer> answers);

struct AnswerBatches {
  int64_t batch = 64;  ///< answers or pairs of a batch
  uint64_t seed = 0;   ///< of their order
};

/// Supervised fine-tuning: the cross-entropy of the tokens of answers, given the prompts. All tasks
/// here refer to their models. Those that train a language model have the settings that load_model
/// needs.
Task supervised_answers(LanguageModel& model, Dataset<PromptAnswer> training,
                        Dataset<PromptAnswer> validation, const AnswerBatches& options);

/// Direct preference optimization (dpo_loss in nn/losses/preference.h) of a policy, which starts as
/// a copy of the reference. Metrics of the implicit rewards: accuracy, the share of pairs whose
/// chosen answer has the larger reward, and the mean margin. The log-probabilities of the reference
/// are computed when a batch is made, in evaluation mode.
Task direct_preference(LanguageModel& policy, LanguageModel& reference, Dataset<AnswerPair> training,
                       Dataset<AnswerPair> validation, double beta, const AnswerBatches& options);

/// The rewards [B] that a model gives to answers. It reads prompt and answer as one text. In
/// evaluation mode, without a tape.
Tensor learned_rewards(RewardModel& model, std::span<const PromptAnswer> answers);

/// A reward model learns from pairs by the loss of Bradley and Terry. Metrics: accuracy and margin,
/// as in direct_preference.
Task reward_modeling(RewardModel& model, Dataset<AnswerPair> training, Dataset<AnswerPair> validation,
                     const AnswerBatches& options);

/// An answer of at most `longest` tokens to each prompt, which ends with the token `end`. Tokens
/// are sampled from the model's own distribution. One seed always gives the same answers.
std::vector<PromptAnswer> sample_answers(LanguageModel& model, std::vector<std::vector<int64_t>> prompts,
                                         int64_t longest, int64_t end, uint64_t seed);

/// log π(answer | prompt) of each answer [B], on the CPU. In evaluation mode, without a tape.
Tensor log_probabilities_of(LanguageModel& model, std::span<const PromptAnswer> answers);

struct PolicyGradientOptions {
  int64_t batch = 64;    ///< answers of a step, a multiple of `group`
  int64_t group = 4;     ///< answers to each prompt, at least 2: each is compared with the others
  int64_t updates = 1;   ///< steps with the same answers, at least 1
  double beta = 0.1;     ///< the price of a nat of KL(policy‖reference)
  double clip = 0.2;     ///< in [0, 1), see policy_gradient_loss; has an effect if updates > 1
  int64_t longest = 16;  ///< tokens of an answer
  int64_t end = 0;       ///< the token that ends an answer
  uint64_t seed = 0;
};

/// The policy answers prompts, and learns from the rewards of its answers, less β·(log π −
/// log π_ref) and less a baseline (nn/losses/policy_gradient.h). The task's loss is
/// policy_gradient_loss minus the mean of these rewards. This changes no gradient, and where the
/// answers are new, the loss is β·KL − reward, whose minimum is wanted. `reward` gives a number to
/// each answer, [B]. The validation split has one answer group to each held-out prompt, from the
/// same seed at each evaluation. Answers depend on the policy as it is when they are sampled, so
/// only a run that is resumed at a multiple of `updates` gives what an uninterrupted one gives.
Task policy_gradient(LanguageModel& policy, LanguageModel& reference, Dataset<std::vector<int64_t>> prompts,
                     Dataset<std::vector<int64_t>> held_out,
                     std::function<Tensor(std::span<const PromptAnswer>)> reward,
                     const PolicyGradientOptions& options);

}  // namespace vitrine::nn::training
