// Norms of a Transformer block, over the channels of each position, with a learned gain.
#pragma once

#include <memory>

#include "core/names.h"
#include "nn/module.h"
#include "ops/norm.h"

namespace vitrine::nn {

/// The kinds of norm. layer: Ba et al. 2016. rms: no mean, no bias; Zhang and Sennrich 2019. scale:
/// g·x/|x|, one gain for all channels; Nguyen and Salazar 2019. ada: c·(1 − k·y)·y for the layer
/// norm y without gain, c = 1, k = 0.1, the factor c·(1 − k·y) constant in the backward pass; Xu et
/// al. 2019. power: ops/power_norm.h; it shares statistics over the batch, but a position does not
/// see the other ones. (A batch norm would let earlier positions see later ones.)
enum class NormKind { layer, rms, scale, ada, power };
inline EnumNames<NormKind> names_of(NormKind) {
  return {"norm",
          {{"layer", NormKind::layer},
           {"rms", NormKind::rms},
           {"scale", NormKind::scale},
           {"ada", NormKind::ada},
           {"power", NormKind::power}}};
}

class Norm;

/// The formula of a kind of norm. Gain, bias and eps are those of the norm; a rule may have
/// statistics of its own.
class NormRule {
 public:
  virtual ~NormRule() = default;
  virtual Tensor forward(const Norm& norm, const Tensor& x) const = 0;
  /// x + residual, and its norm. Kinds with a kernel for both override it.
  virtual AddNorm forward(const Norm& norm, const Tensor& x, const Tensor& residual) const;
  virtual void fields(Fields&) {}
};

/// A norm over the last axis, with the gain and the bias of its kind.
class Norm : public Module {
 public:
  explicit Norm(int64_t width, NormKind kind = NormKind::layer, double eps = 1e-5);
  /// x [..., width] → the same shape
  Tensor forward(const Tensor& x) const;
  AddNorm forward(const Tensor& x, const Tensor& residual) const;  ///< x + residual, and its norm
  void fields(Fields& f) override;
  Norm clone();
  double eps() const { return eps_; }

  Parameter weight, bias;  ///< undefined if the kind has none

 private:
  int64_t width_;
  NormKind kind_;
  double eps_;
  std::unique_ptr<NormRule> rule_;
};

}  // namespace vitrine::nn
