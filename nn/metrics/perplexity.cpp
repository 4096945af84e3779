#include "nn/metrics/perplexity.h"

#include <cmath>

namespace vitrine::nn {

double perplexity(double loss) { return std::exp(loss); }

Metric perplexity_metric() {
  return {.name = "perplexity", .more_is_better = false, .of_split = perplexity, .format = "{:.2f}"};
}

}  // namespace vitrine::nn
