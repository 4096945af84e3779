// What a model sees at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/view.h"

namespace vitrine::nn {

/// Examples that a model sees at a time: any tensors, such as inputs and targets.
struct Batch {
  std::vector<Tensor> tensors;
  /// How many things the loss is the mean of: targets that are not ignored, images, rows. In a mean
  /// over batches, this is the weight of the batch.
  int64_t tokens = 0;

  Batch to(Device device) const {
    Batch there{{}, tokens};
    for (const Tensor& x : tensors) there.tensors.push_back(vitrine::to(x, device));
    return there;
  }
};

}  // namespace vitrine::nn
