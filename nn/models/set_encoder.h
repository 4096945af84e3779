// A Transformer of sets: its input has no order.
#pragma once

#include "nn/layers/linear.h"
#include "nn/transformer/stack.h"

namespace vitrine::nn {

/// A linear layer and an Encoder without positions. If the items of a set are permuted, the
/// features are permuted in the same way (equivariance), and the summary stays the same
/// (invariance). Lee et al. 2019 (Set Transformer), with blocks of self-attention alone.
class SetEncoder : public Module {
 public:
  /// Items have `channels` numbers. A mixer that depends on the order, such as rotary or gru, is an
  /// error.
  SetEncoder(int64_t channels, const StackOptions& options);
  /// items [B, N, channels] → features [B, N, C]. Row b has call.lengths[b] items, and what follows
  /// them is padding.
  Tensor features(const Tensor& items, const StackCall& call = {}) const;
  /// A score for each item, [B, N]. Scores of padding are meaningless.
  Tensor scores(const Tensor& features) const;
  /// The mean of the features of a set, [B, C]. A set without items gives 0.
  Tensor summary(const Tensor& features, const Tensor& lengths = {}) const;
  void fields(Fields& f) override;
  SetEncoder clone();

  Linear input;
  Encoder encoder;
  Linear score;  ///< [1, C]

 private:
  StackOptions options_;
};

}  // namespace vitrine::nn
