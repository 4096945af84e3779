// Residual connections of a block: where the norm is, and how much the shortcut weighs.
#pragma once

#include "core/names.h"
#include "nn/layers/feed_forward.h"
#include "nn/layers/mixture_of_experts.h"
#include "nn/mixer.h"

namespace vitrine::nn {

/// pre: x + f(norm(x)). post: norm(x + f(x)). deepnet: norm(α·x + f(x)) with weights that start
/// smaller by β. admin: norm(ω·x + f(x)) with a learned ω [C], see initialize_admin. Vaswani et al.
/// 2017; Xiong et al. 2020; Wang et al. 2022; Liu et al. 2020.
enum class Residual { pre, post, deepnet, admin };
inline EnumNames<Residual> names_of(Residual) {
  return {"residual connection",
          {{"pre", Residual::pre},
           {"post", Residual::post},
           {"deepnet", Residual::deepnet},
           {"admin", Residual::admin}}};
}

/// α and β of DeepNet, from the numbers of layers. Wang et al. 2022, table 2.
struct DeepNorm {
  double alpha = 1;  ///< the factor of the shortcut
  double beta = 1;   ///< the gain of the initial weights of values, output and feed-forward part
};
/// A stack alone: α = (2L)^¼, β = (8L)^−¼.
DeepNorm deep_norm(int64_t layers);
/// The encoder of an encoder-decoder model: α = 0.81·(N⁴·M)^¹⁄₁₆, β = 0.87·(N⁴·M)^−¹⁄₁₆ for N
/// encoder layers and M decoder layers.
DeepNorm deep_norm_of_encoder(int64_t encoder_layers, int64_t decoder_layers);
/// The decoder of such a model: α = (3M)^¼, β = (12M)^−¼.
DeepNorm deep_norm_of_decoder(int64_t decoder_layers);

/// The initial weights of DeepNet: Xavier normal, with gain β for values, output projection and
/// feed-forward part, and gain 1 for queries and keys. A mixer that is no multi-head attention has
/// no such parts and is an error.
void initialize_deepnet(Mixer& mixer, double beta);
void initialize_deepnet(FeedForward& feed_forward, double beta);
void initialize_deepnet(MixtureOfExperts& experts, double beta);

/// The shortcut of a sublayer: x, α·x, or ω·x.
class Shortcut : public Module {
 public:
  Shortcut(Residual residual, int64_t width, double alpha);
  Tensor forward(const Tensor& x) const;
  void fields(Fields& f) override;
  Shortcut clone();

  Parameter omega;  ///< [C], at first 1; undefined unless the residual is `admin`

 private:
  double alpha_;
};

}  // namespace vitrine::nn
