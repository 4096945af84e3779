// Perplexity of a language model.
#pragma once

#include "nn/metrics/metric.h"

namespace vitrine::nn {

/// exp(loss) for a mean cross-entropy in nats per token. A model that chooses uniformly among n
/// tokens has the perplexity n.
double perplexity(double loss);

/// The metric "perplexity" of a task with such a loss. Lower is better.
Metric perplexity_metric();

}  // namespace vitrine::nn
