#include "nn/metrics/accuracy.h"

#include <algorithm>

#include "core/error.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace vitrine::nn {

WeightedSum accuracy(const Tensor& logits, const Tensor& targets, int64_t ignore_index) {
  const Shape& shape = logits.shape();
  const bool fits = shape.rank() == targets.shape().rank() + 1 &&
                    logits.numel() == targets.numel() * shape.back() &&
                    std::equal(targets.shape().begin(), targets.shape().end(), shape.begin());
  check(fits, "accuracy: logits are {} and targets {}, wanted [..., classes] and [...]", shape,
        targets.shape());
  const auto chosen = argmax(logits, -1).values(), wanted = targets.values();
  WeightedSum result;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] == static_cast<double>(ignore_index)) continue;
    result.sum += chosen[i] == wanted[i] ? 1 : 0;
    ++result.weight;
  }
  return result;
}

Metric accuracy_metric(std::function<Tensor(const Tensor& inputs)> logits) {
  return {.name = "accuracy", .of_batch = [logits = std::move(logits)](const std::vector<Tensor>& batch) {
            return accuracy(logits(batch.at(0)), batch.at(1));
          }};
}

}  // namespace vitrine::nn
