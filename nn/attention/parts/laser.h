// LASER's read of the values (Duvvuri and Dhillon 2024): y = log(Σ_j w_j·e^{v_j}).
#pragma once

#include "nn/attention/read_out.h"

namespace vitrine::nn {

/// encode(v) = e^{v − c} − 1 and decode(a) = c + log(1 + a), for an anchor c per channel. Neither
/// small nor large values lose digits: where the values of a channel are within 2 of each other, c
/// is the middle of their range, and within 60 it is their minimum. The values are float32 or
/// float64, as e^v does not fit into less.
class LaserReadOut : public ReadOut {
 public:
  Tensor anchor(const Tensor& v, const Tensor& seen) const override;
  Tensor encode(const Tensor& v, const Tensor& anchor) const override;
  Tensor rescale(const Tensor& average, const Tensor& from, const Tensor& to) const override;
  Tensor decode(const Tensor& average, const Tensor& anchor) const override;
  /// Channels wider than 60, in which a hidden value could drown the visible ones, are read from
  /// the scores by two log-sum-exps. That takes a tensor [B, H, Tq, Tk, D]. Errors: values of low
  /// precision; on a GPU, while a graph is captured.
  Tensor read(const Weighting& weighting, const Tensor& v) const override;
};

}  // namespace vitrine::nn
