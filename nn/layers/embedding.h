// Embedding: a learned table of vectors.
#pragma once

#include "nn/module.h"

namespace vitrine::nn {

/// Looks up rows of a table [count, width], which starts as N(0, deviation²).
class Embedding : public Module {
 public:
  Embedding(int64_t count, int64_t width, double deviation = 0.02);
  Tensor forward(const Tensor& ids) const;  ///< ids [...] in [0, count) → [..., width]
  void fields(Fields& f) override;
  Embedding clone();

  Parameter weight;
};

}  // namespace vitrine::nn
