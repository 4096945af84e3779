// LASER's read of the values (Duvvuri and Dhillon 2024): y = log(Σ_j w_j·e^{v_j}).
#pragma once

#include "nn/attention/read_out.h"

namespace vitrine::nn {

/// encode(v) = e^{v − c} − 1 and decode(a) = c + log(1 + a), with an anchor c per channel. If the
/// values of a channel differ by at most 2, c is the middle of their range; if by at most 60, c is
/// their minimum. Small values then lose no digits by cancellation, and large values do not
/// overflow. The values are float32 or float64, since narrower dtypes cannot hold e^v.
class LaserReadOut : public ReadOut {
 public:
  Tensor anchor(const Tensor& v, const Tensor& seen) const override;
  Tensor encode(const Tensor& v, const Tensor& anchor) const override;
  Tensor rescale(const Tensor& average, const Tensor& from, const Tensor& to) const override;
  Tensor decode(const Tensor& average, const Tensor& anchor) const override;
  /// A channel whose values differ by more than 60 in some row of the batch or some head could have
  /// a hidden value that dominates the visible ones. Such channels are computed from the scores by
  /// two log-sum-exps, which need a tensor [B, H, Tq, Tk, channels]. Errors: values of a 16-bit
  /// dtype; a call on a GPU while a graph is captured.
  Tensor read(const Weighting& weighting, const Tensor& v) const override;
};

}  // namespace vitrine::nn
