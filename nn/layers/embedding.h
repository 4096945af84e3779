// Rows of a learned table.
#pragma once

#include "nn/module.h"

namespace vitrine::nn {

/// Rows of a table [count, width], N(0, deviation²) at the start.
class Embedding : public Module {
 public:
  Embedding(int64_t count, int64_t width, double deviation = 0.02);
  Tensor forward(const Tensor& ids) const;  ///< ids [...] in [0, count) → [..., width]
  void fields(Fields& f) override;
  Embedding clone();

  Parameter weight;
};

}  // namespace vitrine::nn
