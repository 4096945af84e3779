// Performer (Choromanski et al. 2021): softmax attention, estimated in linear time by random
// features.
#pragma once

#include "nn/attention/linear.h"

namespace vitrine::nn {

/// FAVOR+: φ(x)_r = exp(w_r·x − |x|²/2)/√R for x = q/D^¼ and k/D^¼, so that φ(q)·φ(k) estimates
/// exp(q·k/√D) without bias for w_r ~ N(0, I). Rows w_r of a block of D are orthogonal, which
/// lowers the variance. Common factors of a query's features and of all features are left out, so
/// that no exponential overflows, and a key's features do not depend on other keys.
///
/// The features of a key are about e^(−|k|²/(2√D)), and for wide heads up to e^(−30) times smaller.
/// Where they are below 10⁻³⁰ for all visible keys in float32, the query's mean is about 0. LASER
/// reads by the logarithms of the features, which do not vanish. They are rounded at the size of
/// |k|²/(2√D), so that weights of very long keys have few digits.
class Performer : public FeatureAttention {
 public:
  /// R features; 0: D·ln D, rounded up, as the paper advises. All heads have the same.
  Performer(const AttentionName& parts, const AttentionSizes& sizes, int64_t features = 0);
  /// Draws the features again.
  void redraw(Generator& generator = default_generator());
  void fields(Fields& f) override;
  Performer clone();

  Tensor projection;  ///< the rows w_r [R, D], a buffer

 private:
  Features features(const Tensor& q, const Tensor& k) const override;
  Features log_features(const Tensor& q, const Tensor& k) const override;
  Tensor shift() const;
};

}  // namespace vitrine::nn
