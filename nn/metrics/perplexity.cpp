#include "nn/metrics/perplexity.h"

#include <cmath>
#include <numbers>

#include "core/error.h"

namespace vitrine::nn {

double perplexity(double loss) { return std::exp(loss); }

Metric perplexity_metric() {
  return {.name = "perplexity", .more_is_better = false, .of_split = perplexity, .format = "{:.2f}"};
}

double bits_per_byte(double loss, double tokens_per_byte) {
  return loss / std::numbers::ln2 * tokens_per_byte;
}

Metric bits_per_byte_metric(double tokens_per_byte) {
  check(tokens_per_byte > 0 && std::isfinite(tokens_per_byte),
        "bits_per_byte_metric: tokens_per_byte is {}, wanted a positive number", tokens_per_byte);
  return {.name = "bits per byte", .more_is_better = false, .of_split = [=](double loss) {
            return bits_per_byte(loss, tokens_per_byte);
          }};
}

}  // namespace vitrine::nn
