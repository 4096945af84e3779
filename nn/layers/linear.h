// A linear layer: y = x·Wᵀ + b.
#pragma once

#include <memory>

#include "nn/layers/low_rank.h"
#include "ops/quantized.h"

namespace vitrine::nn {

/// Whether a layer has a bias, a learned constant per output.
enum class Bias : bool { no, yes };

/// y = x·Wᵀ + b. W [out, in] starts as N(0, deviation²), b as 0.
class Linear : public Module {
 public:
  Linear(int64_t in, int64_t out, Bias bias = Bias::yes, double deviation = 0.02);
  Tensor forward(const Tensor& x) const;            ///< x [..., in] → [..., out]
  Tensor forward_gelu_tanh(const Tensor& x) const;  ///< gelu_tanh(forward(x)), in one pass
  /// x·Wᵀ + b with another b, [out] or undefined.
  Tensor product(const Tensor& x, const Tensor& bias) const;
  /// The same with the rows [begin, end) of W alone; b [end − begin].
  Tensor product(const Tensor& x, const Tensor& bias, int64_t begin, int64_t end) const;
  void fields(Fields& f) override;
  Linear clone();  ///< without `int8`

  Parameter weight, bias;  ///< [out, in] and [out]; undefined without bias
  /// Null, or a learned change that is added to the outputs: see nn/layers/lora.h
  std::unique_ptr<LowRank> lora;
  /// Undefined, or what is multiplied in place of the weight: see quantize_linear_layers
  Int8Matrix int8;

 private:
  std::function<void()> adapt_to(Module& source) override;  ///< a low-rank change, or none
};

/// Rounds the weights of all linear layers of a module to 8 bits, for generation: from now on these
/// layers multiply by quantize_int8(weight). Embeddings, norms, biases and an output layer that
/// shares the weights of an embedding stay as they are. Parameters do not change, so checkpoints
/// have the weights of before, and later changes of a weight have no effect until the next call. A
/// forward pass of such a layer while a tape records is an error: it has no gradient.
void quantize_linear_layers(Module& module);

}  // namespace vitrine::nn
