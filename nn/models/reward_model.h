// A language model with one number as its output: the reward of a text.
#pragma once

#include "nn/layers/linear.h"
#include "nn/models/gpt.h"

namespace vitrine::nn {

/// A linear layer on the feature of a text's last token. The body may start as a copy of a trained
/// model: reward_model.body.copy_from(gpt). The head starts as 0, so that all rewards are 0 at
/// first. Ouyang et al. 2022.
class RewardModel : public Module {
 public:
  explicit RewardModel(const GptOptions& options);
  /// ids [B, T] → rewards [B]. Row b has lengths[b] tokens, int64 [B], from 1 to T; undefined: T.
  /// What follows them is padding, which changes nothing.
  Tensor forward(const Tensor& ids, const Tensor& lengths = {}) const;
  void fields(Fields& f) override;
  RewardModel clone();

  Gpt body;
  Linear head;  ///< C → 1, without bias, because a constant has no effect
};

}  // namespace vitrine::nn
