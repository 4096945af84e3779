#include "nn/training/tasks/text_encoding.h"

#include "nn/layers/over_time.h"
#include "nn/losses/contrastive.h"
#include "nn/metrics/accuracy.h"
#include "nn/metrics/embeddings.h"
#include "ops/index.h"
#include "ops/loss.h"
#include "ops/view.h"

namespace vitrine::nn::training {
namespace {

using Tensors = std::vector<Tensor>;

/// The features of a batch of joined_batch.
Tensor features(const TextEncoder& model, const Tensors& x) {
  return model.features(x.at(0), {.lengths = x.at(1)}, model.segments ? x.at(2) : Tensor());
}

/// The loss and the accuracy of logits, whose targets are tensor `target` of the batch.
Task classification(Module& model, SplitBatches batches, std::function<Tensor(const Tensors&)> logits,
                    size_t target) {
  return {.model = model,
          .batch = std::move(batches.training),
          .validation = [all = std::move(batches.validation)] { return all; },
          .loss = [=](const Tensors& x) { return cross_entropy(logits(x), x.at(target)); },
          .logits = logits,
          .metrics = {{.name = "accuracy",
                       .of_batch = [=](const Tensors& x) { return accuracy(logits(x), x.at(target)); }}}};
}

}  // namespace

Task masked_language_modeling(TextEncoder& model, SplitBatches batches, TokenMasking masking) {
  for (int64_t i = 0; Batch & batch : batches.validation) batch = masking(std::move(batch), i++);
  batches.training = [plain = std::move(batches.training), masking = std::move(masking)](int64_t index) {
    return masking(plain(index), index);
  };
  const auto logits = [&model](const Tensors& x) {
    const Tensor all = features(model, x);
    return model.logits(index_select(reshape(all, {-1, all.size(2)}), 0, x.at(3)));
  };
  Task task = classification(model, std::move(batches), logits, 4);
  task.words = {
      .item = "masked token", .loss_unit = "nats per masked token", .classes = model.options().vocabulary};
  return task;
}

Task text_classification(TextEncoder& model, SplitBatches batches) {
  Task task = classification(
      model, std::move(batches),
      [&model](const Tensors& x) { return model.classify(features(model, x), x.at(1)); }, 3);
  task.words = {.item = "text", .loss_unit = "nats per text", .classes = model.options().classes};
  return task;
}

Task text_vectors(TextEncoder& model, SplitBatches batches, double temperature) {
  const auto vectors = [&model](const Tensors& x, size_t first) {
    const Tensor& lengths = x.at(first + 1);
    return mean_over_time(model.features(x.at(first), {.lengths = lengths}), lengths);
  };
  const auto metric = [=](const char* name, bool more_is_better, auto of) {
    return Metric{.name = name, .more_is_better = more_is_better, .of_batch = [=](const Tensors& x) {
                    return of(vectors(x, 0), vectors(x, 2));
                  }};
  };
  using V = const Tensor&;
  return {.model = model,
          .batch = std::move(batches.training),
          .validation = [all = std::move(batches.validation)] { return all; },
          .loss =
              [=](const Tensors& x) {
                return info_nce(vectors(x, 0), vectors(x, 2), {}, {.temperature = temperature});
              },
          .metrics = {metric("retrieval", true, retrieval_accuracy),
                      metric("alignment", false,
                             [](V a, V b) {
                               const auto texts = static_cast<double>(a.size(0));
                               return WeightedSum{texts * alignment(a, b), texts};
                             }),
                      // of pairs of texts; a batch of one text has none
                      metric("uniformity", false,
                             [](V a, V) {
                               const auto texts = static_cast<double>(a.size(0)), pairs = texts * (texts - 1);
                               return pairs == 0 ? WeightedSum{} : WeightedSum{pairs * uniformity(a), pairs};
                             })},
          .words = {.item = "text", .loss_unit = "nats per text"}};
}

}  // namespace vitrine::nn::training
