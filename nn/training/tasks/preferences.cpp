#include "nn/training/tasks/preferences.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "core/tape.h"
#include "nn/data/loader.h"
#include "nn/data/padding.h"
#include "nn/generation/generate.h"
#include "nn/losses/policy_gradient.h"
#include "nn/losses/preference.h"
#include "nn/training/checkpoint.h"
#include "ops/elementwise.h"
#include "ops/loss.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace vitrine::nn::training {
namespace {

using Ids = std::vector<int64_t>;

/// log p of each token of the answers [B, T], by a model that is not trained now.
Tensor fixed_log_probabilities(LanguageModel& model, const Batch& batch) {
  const Tape::Pause pause;
  const ModeScope evaluation(model, false);
  const Batch there = batch.to(model.device());
  return to(token_log_probabilities(model.forward(there.tensors[0]), there.tensors[1]), Device::cpu);
}

/// The chosen answers of all pairs, then the rejected ones.
std::vector<PromptAnswer> in_two_halves(std::span<const AnswerPair> pairs) {
  std::vector<PromptAnswer> answers;
  for (const AnswerPair& pair : pairs) answers.push_back({pair.prompt, pair.chosen});
  for (const AnswerPair& pair : pairs) answers.push_back({pair.prompt, pair.rejected});
  return answers;
}

PairValues pairs_of(const Tensor& halves) {
  const int64_t count = halves.size(0) / 2;
  return {slice(halves, 0, 0, count), slice(halves, 0, count)};
}

/// Prompts and answers as texts: ids [B, T] and lengths [B].
Batch whole_texts(std::span<const PromptAnswer> answers) {
  std::vector<Ids> rows;
  for (const PromptAnswer& item : answers) {
    rows.push_back(item.prompt);
    rows.back().insert(rows.back().end(), item.answer.begin(), item.answer.end());
  }
  const Padded texts = pad_ids(rows, 0);
  return {{texts.values, texts.lengths}, std::ssize(answers)};
}

/// A task whose batches are made of items; the loss and the metrics are the caller's.
template <class Item, class Collate>
Task task_of(Module& model, Dataset<Item> training, const Dataset<Item>& validation,
             const AnswerBatches& options, const Collate& collate) {
  check(options.batch >= 1, "training: batch is {}, wanted at least 1", options.batch);
  const int64_t count = training.size();
  const auto in = std::make_shared<Loader>(std::move(training),
                                           shuffled_batches(count, options.batch, options.seed), collate);
  return {.model = model,
          .batch = [in](int64_t index) { return in->batch(index); },
          .validation =
              [all = Loader(validation, ordered_batches(validation.size(), options.batch), collate).whole()] {
                return all;
              },
          .loss = {},
          .setting = {{"seed", std::to_string(options.seed)}, {"batch", std::to_string(options.batch)}}};
}

/// The loss and the metrics of a task by the rewards of pairs.
void learn_pairs(Task& task, const std::function<PairValues(const std::vector<Tensor>&)>& rewards) {
  const auto margins = [rewards](const std::vector<Tensor>& x) {
    const PairValues pair = rewards(x);
    return pair.chosen - pair.rejected;
  };
  const auto metric = [=](const char* name, auto of) {
    return Metric{.name = name, .of_batch = [=](const std::vector<Tensor>& x) {
                    const Tensor margin = margins(x);
                    return WeightedSum{sum(of(margin)).item(), static_cast<double>(margin.numel())};
                  }};
  };
  task.loss = [=](const std::vector<Tensor>& x) { return bradley_terry_loss(rewards(x)); };
  task.metrics = {metric("accuracy", [](const Tensor& m) { return greater(m, zeros_like(m)); }),
                  metric("margin", [](const Tensor& m) { return m; })};
  task.words = {.item = "pair",
                .loss_unit = "nats per pair",
                .loss_meaning = "−mean ln σ(reward of the chosen answer − reward of the rejected one)."};
}

}  // namespace

Batch answer_batch(std::span<const PromptAnswer> answers) {
  std::vector<Ids> ids, targets;
  int64_t tokens = 0;
  for (const PromptAnswer& item : answers) {
    check(!item.prompt.empty() && !item.answer.empty(),
          "answer_batch: a prompt has {} tokens and its answer {}, wanted at least 1 each",
          item.prompt.size(), item.answer.size());
    ids.push_back(item.prompt);
    ids.back().insert(ids.back().end(), item.answer.begin(), item.answer.end() - 1);
    targets.emplace_back(item.prompt.size() - 1, -100);
    targets.back().insert(targets.back().end(), item.answer.begin(), item.answer.end());
    tokens += std::ssize(item.answer);
  }
  return {{pad_ids(ids, 0).values, pad_ids(targets, -100).values}, tokens};
}

Task supervised_answers(LanguageModel& model, Dataset<PromptAnswer> training,
                        Dataset<PromptAnswer> validation, const AnswerBatches& options) {
  Task task = task_of(model, std::move(training), validation, options, answer_batch);
  task.loss = [&model](const auto& x) { return cross_entropy(model.forward(x[0]), x[1]); };
  task.logits = [&model](const auto& x) { return model.forward(x[0]); };
  task.words = {.item = "token",
                .loss_unit = "nats per token",
                .loss_meaning = "The cross-entropy −mean ln p(next token of the answer | text before it).",
                .classes = model.vocabulary()};
  keep_model(task, model);
  return task;
}

Task direct_preference(LanguageModel& policy, LanguageModel& reference, Dataset<AnswerPair> training,
                       Dataset<AnswerPair> validation, double beta, const AnswerBatches& options) {
  const auto collate = [&reference](std::span<const AnswerPair> pairs) {
    Batch batch = answer_batch(in_two_halves(pairs));
    batch.tensors.push_back(sum(fixed_log_probabilities(reference, batch), {1}));
    batch.tokens = std::ssize(pairs);
    return batch;
  };
  Task task = task_of(policy, std::move(training), validation, options, collate);
  learn_pairs(task, [&policy, beta](const std::vector<Tensor>& x) {
    const Tensor now = answer_log_probabilities(policy.forward(x[0]), x[1]);
    return implicit_rewards(pairs_of(now), pairs_of(x[2]), beta);
  });
  task.setting["beta"] = fmt::format("{}", beta);
  keep_model(task, policy);
  return task;
}

Tensor learned_rewards(RewardModel& model, std::span<const PromptAnswer> answers) {
  const Tape::Pause pause;
  const ModeScope evaluation(model, false);
  const Batch texts = whole_texts(answers).to(model.device());
  return model.forward(texts.tensors[0], texts.tensors[1]);
}

Task reward_modeling(RewardModel& model, Dataset<AnswerPair> training, Dataset<AnswerPair> validation,
                     const AnswerBatches& options) {
  const auto collate = [](std::span<const AnswerPair> pairs) {
    Batch batch = whole_texts(in_two_halves(pairs));
    batch.tokens = std::ssize(pairs);
    return batch;
  };
  Task task = task_of(model, std::move(training), validation, options, collate);
  learn_pairs(task, [&model](const std::vector<Tensor>& x) { return pairs_of(model.forward(x[0], x[1])); });
  return task;
}

std::vector<PromptAnswer> sample_answers(LanguageModel& model, std::vector<Ids> prompts, int64_t longest,
                                         int64_t end, uint64_t seed) {
  const std::vector<Ids> texts =
      generate_batch(model, prompts, longest, {.seed = seed}, {.stop = {.tokens = {end}}});
  std::vector<PromptAnswer> answers;
  for (size_t i = 0; i < texts.size(); ++i)
    answers.push_back({prompts[i], Ids(texts[i].begin() + std::ssize(prompts[i]), texts[i].end())});
  return answers;
}

Tensor log_probabilities_of(LanguageModel& model, std::span<const PromptAnswer> answers) {
  return sum(fixed_log_probabilities(model, answer_batch(answers)), {1});
}

Task policy_gradient(LanguageModel& policy, LanguageModel& reference, Dataset<Ids> prompts,
                     Dataset<Ids> held_out, std::function<Tensor(std::span<const PromptAnswer>)> reward,
                     const PolicyGradientOptions& o) {
  check(o.group >= 2 && o.batch >= o.group && o.batch % o.group == 0 && o.updates >= 1 && o.longest >= 1,
        "policy_gradient: a batch of {} answers in groups of {}, {} updates and answers of {} tokens; wanted "
        "a multiple of the group, groups of at least 2, and at least 1 update and 1 token",
        o.batch, o.group, o.updates, o.longest);
  check(prompts.size() > 0 && held_out.size() > 0,
        "policy_gradient: there are {} prompts and {} held-out ones", prompts.size(), held_out.size());
  // The tensors are ids, targets, log-probabilities when sampled, advantages and penalized rewards.
  const auto sampled = [=, &policy, &reference](const Dataset<Ids>& chosen, uint64_t seed) {
    std::vector<Ids> repeated;
    for (const Ids& prompt : chosen) repeated.insert(repeated.end(), static_cast<size_t>(o.group), prompt);
    const auto answers = sample_answers(policy, std::move(repeated), o.longest, o.end, seed);
    Batch batch = answer_batch(answers);
    batch.tokens = std::ssize(answers);
    const Tensor now = fixed_log_probabilities(policy, batch),
                 before = fixed_log_probabilities(reference, batch);
    const Tensor given = to(reward(answers), Device::cpu);
    const Tensor rewards = penalized_rewards(given, sum(now, {1}), sum(before, {1}), o.beta);
    batch.tensors.insert(batch.tensors.end(), {now, leave_one_out_advantages(rewards, o.group), rewards});
    return batch;
  };
  // The last answers, and for which steps they are.
  const auto number = std::make_shared<int64_t>(-1);
  const auto last = std::make_shared<Batch>();
  Task task{.model = policy,
            .batch =
                [=](int64_t index) {
                  if (*number == index / o.updates) return *last;
                  const int64_t now = index / o.updates;
                  Generator random;
                  random.set(o.seed, static_cast<uint64_t>(now) << 32);
                  std::vector<Ids> chosen;
                  for (int64_t i = 0; i < o.batch / o.group; ++i)
                    chosen.push_back(prompts[random.next_below(prompts.size())]);
                  const auto seed = static_cast<uint64_t>(random.next_below(int64_t{1} << 62));
                  *last = sampled(Dataset<Ids>(chosen), seed);
                  *number = now;
                  return *last;
                },
            .validation = [=] { return std::vector<Batch>{sampled(held_out, o.seed)}; },
            .loss =
                [=, &policy](const std::vector<Tensor>& x) {
                  const Tensor now = token_log_probabilities(policy.forward(x[0]), x[1]);
                  return policy_gradient_loss(now, x[2], x[3], o.clip) - mean(x[4]);
                },
            .words = {.item = "answer",
                      .loss_meaning = "β·KL − reward, whose minimum is wanted. Its gradient is the policy "
                                      "gradient."},
            .setting = {{"seed", std::to_string(o.seed)},
                        {"batch", std::to_string(o.batch)},
                        {"group", std::to_string(o.group)},
                        {"updates", std::to_string(o.updates)},
                        {"longest", std::to_string(o.longest)},
                        {"end", std::to_string(o.end)},
                        {"beta", fmt::format("{}", o.beta)},
                        {"ratio clip", fmt::format("{}", o.clip)}}};
  keep_model(task, policy);
  return task;
}

}  // namespace vitrine::nn::training
