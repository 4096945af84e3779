// The tasks of a TextEncoder: masked tokens, classes of texts, and vectors of texts.
#pragma once

#include <functional>
#include <vector>

#include "nn/data/masking.h"
#include "nn/models/text_encoder.h"
#include "nn/training/task.h"

namespace vitrine::nn::training {

/// The batches of a task: those of the training by number, and the whole validation split.
struct SplitBatches {
  std::function<Batch(int64_t index)> training;
  std::vector<Batch> validation;
};

/// Masked language modeling (Devlin et al. 2019). A batch is that of joined_batch: ids [B, T],
/// lengths [B] and segments [B, T]. `masking` hides some of its tokens. The loss is the mean
/// cross-entropy of these tokens, and only their logits are computed. The metric is their accuracy.
/// A model without segments ignores those of the batch. The task refers to the model.
Task masked_language_modeling(TextEncoder& model, SplitBatches batches, TokenMasking masking);

/// Classification of whole texts by TextEncoder::classify, with the metric accuracy. A batch is
/// that of joined_batch and the labels [B].
Task text_classification(TextEncoder& model, SplitBatches batches);

/// Vectors of texts, the means of their features: those of a pair are similar, and all others of a
/// batch are not. The loss is info_nce of cosines divided by `temperature` (SimCSE, Gao et al.
/// 2021). A batch is the ids and lengths of N texts, and those of the N texts that belong to them.
/// If a text belongs to itself, its two vectors differ by dropout alone. Metrics: retrieval (the
/// share of texts whose own partner is nearest), alignment and uniformity
/// (nn/metrics/embeddings.h). They are means over batches, so one batch should have the whole
/// split.
Task text_vectors(TextEncoder& model, SplitBatches batches, double temperature);

}  // namespace vitrine::nn::training
