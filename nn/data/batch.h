// Batches of examples.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/view.h"

namespace vitrine::nn {

/// Examples that a model processes together: any tensors, such as inputs and targets.
struct Batch {
  std::vector<Tensor> tensors;
  /// The number of items that the loss averages over: targets that are not ignored, images, rows.
  /// It is the weight of the batch in a mean over batches.
  int64_t tokens = 0;

  Batch to(Device device) const {
    Batch there{{}, tokens};
    for (const Tensor& x : tensors) there.tensors.push_back(vitrine::to(x, device));
    return there;
  }
};

}  // namespace vitrine::nn
