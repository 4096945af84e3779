// The low-rank change of a linear layer that LoRA learns.
#pragma once

#include "nn/module.h"

namespace vitrine::nn {

struct LoraOptions {
  int64_t rank = 8;   ///< r, at least 1 and at most the sizes of the weight
  double alpha = 16;  ///< the change is multiplied by alpha/r
};

/// (alpha/r)·x·Aᵀ·Bᵀ. A [r, in] starts as U(−1/√in, 1/√in) and B [out, r] as 0, so that at first
/// nothing changes. Hu et al. 2021.
class LowRank : public Module {
 public:
  LowRank(int64_t in, int64_t out, const LoraOptions& options);
  Tensor forward(const Tensor& x) const;  ///< x [..., in] → [..., out]
  /// The outputs [begin, end) alone.
  Tensor forward(const Tensor& x, int64_t begin, int64_t end) const;
  Tensor change() const;  ///< (alpha/r)·B·A, [out, in]
  void fields(Fields& f) override;
  LowRank clone();
  const LoraOptions& options() const { return options_; }

  Parameter a, b;

 private:
  double scale() const { return options_.alpha / static_cast<double>(options_.rank); }

  LoraOptions options_;
};

}  // namespace vitrine::nn
