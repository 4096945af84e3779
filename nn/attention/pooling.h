// Attention with a learned query, which makes one vector of a sequence.
#pragma once

#include <memory>

#include "nn/attention/read_out.h"
#include "nn/layers/linear.h"

namespace vitrine::nn {

/// y = Σ_t a_t·h_t with a = softmax(u·tanh(W·h_t + b)) over the positions t. The query u is
/// learned. Hierarchical attention (Yang et al. 2016) so pools words into a sentence, and sentences
/// into a document.
class AttentionPooling : public Module {
 public:
  /// h has `width` channels, the hidden layer has `hidden`. `read` reads the h_t by their weights,
  /// for example by LASER; nullptr: their weighted mean.
  AttentionPooling(int64_t width, int64_t hidden, std::shared_ptr<const ReadOut> read = nullptr);

  struct Result {
    Tensor y, weights;  ///< [B, C] and [B, T]
  };
  /// h [B, T, C]. visible: bool [B, T], false for padding; undefined: all are visible. A sequence
  /// without a visible position gives 0.
  Result attend(const Tensor& h, const Tensor& visible = {}) const;
  Tensor forward(const Tensor& h, const Tensor& visible = {}) const { return attend(h, visible).y; }
  void fields(Fields& f) override;
  AttentionPooling clone();

  Linear hidden;    ///< W [A, C] and b [A]
  Parameter query;  ///< u [A]

 private:
  std::shared_ptr<const ReadOut> read_;
};

}  // namespace vitrine::nn
