// Perplexity of a language model.
#pragma once

#include "nn/metrics/metric.h"

namespace vitrine::nn {

/// exp(loss), of a mean cross-entropy in nats per token: among how many equally likely tokens
/// the model chooses.
double perplexity(double loss);

/// The metric "perplexity" of a task whose loss is such a cross-entropy. Less is better.
Metric perplexity_metric();

}  // namespace vitrine::nn
