// Differential attention (Ye et al. 2024): the difference of two attention maps, in which noise
// that both have cancels.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "nn/attention/composed.h"

namespace vitrine::nn {

/// The channels of queries and keys are halved: the first half makes the map A₁, the second A₂.
///
///   y = (1 − λ₀)·RMSNorm(A₁·v − λ·A₂·v)        λ = exp(q₁·k₁) − exp(q₂·k₂) + λ₀
///
/// The vectors q₁, k₁, q₂, k₂ [D/2] and the gain of the norm [D] are learned. Both maps have the
/// same parts. A read-out reads each map by itself: with LASER, A·v becomes log(A·e^v).
class DifferentialAttention : public Attention {
 public:
  /// `initial` is λ₀. Without it, it is initial_for_layer of the layer of `sizes`. An odd head size
  /// is an error.
  DifferentialAttention(const AttentionName& parts, const AttentionSizes& sizes,
                        std::optional<double> initial = {}, double eps = 1e-5);
  /// λ₀ = 0.8 − 0.6·exp(−0.3·(layer − 1)) for layer 1, 2, …: it grows from 0.2 to 0.8. For layer 0,
  /// an attention outside a stack, it is 0.8.
  static double initial_for_layer(int64_t layer);

  Tensor forward(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMask& mask,
                 DecodingState* state = nullptr, MixerTrace* trace = nullptr) const override;
  bool needs_positions() const override { return map.needs_positions(); }
  /// A cache for each map.
  std::unique_ptr<DecodingState> make_state(int64_t batch, int64_t capacity) const override;
  std::string explain(bool weights_wanted = false, const AttentionMask& mask = {}) const override;
  Tensor lambda() const;  ///< a number, in float32 if the parameters have 16 bits
  void fields(Fields& f) override;
  DifferentialAttention clone();

  ComposedAttention map;
  Parameter first_query, first_key, second_query, second_key;  ///< [D/2]
  Parameter gain;                                              ///< [D]

 private:
  double initial_, eps_;
};

}  // namespace vitrine::nn
