// The read-out of attention: how a query reads the values v by its weights w.
//
//   y = decode(Σ_j w_j·encode(v_j))      with w_j ≥ 0 and Σ_j w_j = 1
//
// The base class is the weighted mean: encode and decode are the identity. LASER encodes by e^v and
// decodes by log (nn/attention/parts/laser.h). An attention that is written against these functions
// takes every read-out, also if it sees the values block by block.
#pragma once

#include "nn/attention/weighting.h"

namespace vitrine::nn {

class ReadOut {
 public:
  virtual ~ReadOut() = default;

  /// A number per channel close to the values, [.., 1, D] for v [.., Tk, D]. Encoding relative to
  /// it neither overflows nor loses digits. The output does not depend on it, so it has no
  /// gradient. `seen` [.., Tk, 1] is false for a value that no query sees; undefined: all are seen.
  /// An undefined anchor: the read-out needs none.
  virtual Tensor anchor(const Tensor& /*v*/, const Tensor& /*seen*/) const { return {}; }
  /// v [.., Tk, D] → what is averaged, of the same shape.
  virtual Tensor encode(const Tensor& v, const Tensor& /*anchor*/) const { return v; }
  /// An average of encoded values [.., Tq, D] for the anchor `from` → the same average for the
  /// anchor `to`. Two blocks of keys are joined so: both averages are rescaled to one anchor, and
  /// then averaged by the sums of the blocks' weights.
  virtual Tensor rescale(const Tensor& average, const Tensor& /*from*/, const Tensor& /*to*/) const {
    return average;
  }
  /// An average of encoded values → the output y [.., Tq, D].
  virtual Tensor decode(const Tensor& average, const Tensor& /*anchor*/) const { return average; }

  /// The whole read of v [B, H, Tk, D]. A read-out overrides it where some values need more than
  /// one anchor.
  virtual Tensor read(const Weighting& weighting, const Tensor& v) const;

 protected:
  /// decode(weights·encode(v)). Where `seen` is false, the anchor takes the place of v.
  Tensor read_near(const Tensor& weights, const Tensor& v, const Tensor& anchor, const Tensor& seen) const;
};

/// A read by weights ≥ 0 of any sum: they are divided by it.
Tensor read_shares(const ReadOut& read_out, const Tensor& weights, const Tensor& visible, const Tensor& v);

}  // namespace vitrine::nn
