#include "nn/metrics/accuracy.h"

#include <algorithm>

#include "core/error.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace vitrine::nn {

namespace {

void check_shapes(const char* op, const Tensor& logits, const Tensor& targets) {
  const Shape& shape = logits.shape();
  const bool fits = shape.rank() == targets.shape().rank() + 1 &&
                    logits.numel() == targets.numel() * shape.back() &&
                    std::equal(targets.shape().begin(), targets.shape().end(), shape.begin());
  check(fits, "{}: logits are {} and targets {}, wanted [..., classes] and [...]", op, shape,
        targets.shape());
}

}  // namespace

WeightedSum accuracy(const Tensor& logits, const Tensor& targets, int64_t ignore_index) {
  check_shapes("accuracy", logits, targets);
  const auto chosen = argmax(logits, -1).values(), wanted = targets.values();
  WeightedSum result;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] == static_cast<double>(ignore_index)) continue;
    result.sum += chosen[i] == wanted[i] ? 1 : 0;
    ++result.weight;
  }
  return result;
}

WeightedSum sequence_accuracy(const Tensor& logits, const Tensor& targets, int64_t ignore_index) {
  check_shapes("sequence_accuracy", logits, targets);
  const auto length = targets.shape().rank() == 0 ? 0 : static_cast<size_t>(targets.shape().back());
  check(length > 0, "sequence_accuracy: targets are {}, wanted sequences of at least one", targets.shape());
  const auto chosen = argmax(logits, -1).values(), wanted = targets.values();
  WeightedSum result;
  for (size_t begin = 0; begin < wanted.size(); begin += length) {
    bool right = true;
    for (size_t i = begin; i < begin + length; ++i)
      right = right && (chosen[i] == wanted[i] || wanted[i] == static_cast<double>(ignore_index));
    result.sum += right ? 1 : 0;
    ++result.weight;
  }
  return result;
}

std::vector<double> confusion_counts(const Tensor& logits, const Tensor& targets) {
  check_shapes("confusion_counts", logits, targets);
  const auto classes = static_cast<size_t>(logits.shape().back());
  const auto chosen = argmax(logits, -1).values(), wanted = targets.values();
  std::vector<double> counts(classes * classes);
  for (size_t i = 0; i < wanted.size(); ++i) {
    check(wanted[i] >= 0 && wanted[i] < static_cast<double>(classes),
          "confusion_counts: the target {} is outside [0, {})", wanted[i], classes);
    ++counts[static_cast<size_t>(wanted[i]) * classes + static_cast<size_t>(chosen[i])];
  }
  return counts;
}

Metric accuracy_metric(std::function<Tensor(const Tensor& inputs)> logits) {
  return {.name = "accuracy", .of_batch = [logits = std::move(logits)](const std::vector<Tensor>& batch) {
            return accuracy(logits(batch.at(0)), batch.at(1));
          }};
}

}  // namespace vitrine::nn
