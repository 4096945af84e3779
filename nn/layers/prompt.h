// Prompt tuning: learned embeddings before those of the input.
#pragma once

#include "nn/module.h"

namespace vitrine::nn {

/// x [B, T, C] → [B, P + T, C]: the learned prefix [P, C], then x. With all other parameters frozen
/// (nn/layers/freeze.h) only the prefix is trained. Lester et al. 2021; Li and Liang 2021.
class Prompt : public Module {
 public:
  /// P = `length` ≥ 1 rows, which start as N(0, deviation²).
  Prompt(int64_t length, int64_t width, double deviation = 0.02);
  /// The prefix starts as these rows [P, C], such as embeddings of a written prompt.
  explicit Prompt(const Tensor& rows);
  Tensor forward(const Tensor& x) const;
  /// The rows of y [B, P + T, ...] that belong to the input: [B, T, ...].
  Tensor own(const Tensor& y) const;
  void fields(Fields& f) override;
  Prompt clone();

  Parameter prefix;
};

}  // namespace vitrine::nn
