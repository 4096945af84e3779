// Sets in which one item does not belong to the others.
#pragma once

#include <cstdint>

#include "core/tensor.h"
#include "nn/data/synthetic/part.h"

namespace vitrine::nn::synthetic {

struct OddOneOut {
  Tensor items;     ///< float32 [count, features]
  int64_t odd = 0;  ///< the row of the odd one
};

struct OddOneOutOptions {
  int64_t count = 10, features = 16, classes = 20;
  double spread = 0.5;  ///< standard deviation of an item about the centre of its class
};

/// The items of a set belong to one class, but for one item of another class, at a random place. An
/// item is the centre of its class plus normal noise; the centres are normal, and the same for
/// every seed. What is odd depends on the other items alone, so no order and no single item decides
/// it.
Dataset<OddOneOut> odd_one_out(Part part, int64_t size, const OddOneOutOptions& options = {},
                               uint64_t seed = 0);

}  // namespace vitrine::nn::synthetic
