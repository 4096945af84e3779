// Perplexity and bits per byte of a language model.
#pragma once

#include "nn/metrics/metric.h"

namespace vitrine::nn {

/// exp(loss) for a mean cross-entropy in nats per token. A model that chooses uniformly among n
/// tokens has the perplexity n.
double perplexity(double loss);

/// The metric "perplexity" of a task with such a loss. Lower is better.
Metric perplexity_metric();

/// loss/ln 2 bits per token, times tokens per byte of the text. It compares models with different
/// tokens, which perplexity does not, if the tokens of each give the text back. A text that a model
/// encodes in n bytes has 8·n/(its bytes) bits per byte.
double bits_per_byte(double loss, double tokens_per_byte);

/// The metric "bits per byte" of a task with such a loss. Lower is better. Error: tokens_per_byte
/// is not positive and finite.
Metric bits_per_byte_metric(double tokens_per_byte);

}  // namespace vitrine::nn
