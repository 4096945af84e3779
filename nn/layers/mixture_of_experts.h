// A feed-forward part with several experts, of which each token takes one or a few.
#pragma once

#include "nn/layers/feed_forward.h"

namespace vitrine::nn {

struct ExpertOptions {
  int64_t count = 0;      ///< E, the number of experts; 0: a dense feed-forward part
  int64_t per_token = 1;  ///< K experts per token: 1 (Switch), 2 (GShard) or more, at most E
  /// In training each expert takes at most ⌈factor·K·N/E⌉ of the N tokens; 0: no limit. In
  /// evaluation there is no limit.
  double capacity_factor = 1.25;
  double balance = 0.01;  ///< the factor of balance_loss in the auxiliary loss
  double z = 0.001;       ///< the factor of z_loss in the auxiliary loss
};

/// Where each of N tokens went, with K choices in the order of their probability.
struct Routing {
  Tensor experts;    ///< int64 [N, K]: the chosen experts; the lower of equal ones comes first
  Tensor slots;      ///< int64 [N, K]: the place in the expert; −1 where the token is dropped
  Tensor gates;      ///< [N, K]: the weights of the outputs, in the wide dtype
  int64_t capacity;  ///< the number of places of each expert
  Tensor dropped;    ///< a scalar: the share of choices that are dropped, without those of padding
  Tensor real;       ///< bool [N]: false for padding; undefined: there is none
  /// balance·balance_loss + z·z_loss, a scalar; undefined in evaluation
  Tensor auxiliary;
};

/// Chooses experts for logits [N, E]. p = softmax(logits); the gate of one choice is its p, those
/// of several choices are their p divided by their sum, before anything is dropped. An expert takes
/// `capacity` tokens in the order of the tokens, all first choices before all second ones. 0 is no
/// limit: the capacity is then the largest load, which is read from the device. Padding, where
/// `real` (bool [N]) is false, goes to no expert and takes no place. Discrete choices have no
/// gradient. Fedus et al. 2021 (Switch), Lepikhin et al. 2020 (GShard).
Routing route(const Tensor& logits, int64_t per_token, int64_t capacity = 0, const Tensor& real = {});

/// E·Σ_e f_e·P_e: f_e is the share of tokens whose first choice is e, without a gradient and before
/// dropping, and P_e is the mean of p_e. Padding does not count. The least value is 1. Fedus et al.
/// 2021, equation 4.
Tensor balance_loss(const Tensor& logits, const Routing& routing);
/// The mean over tokens, without padding, of (log Σ e^logits)². Zoph et al. 2022 (ST-MoE),
/// equation 5.
Tensor z_loss(const Tensor& logits, const Tensor& real = {});

/// y = Σ_k gate_k·Down_e(act(Up_e·x)) over the choices e of each token. A dropped choice
/// contributes 0, also to the gradient; the residual connection of the block still carries the
/// token. The same holds for padding. The router computes in the wide dtype. The rows of each
/// expert are gathered into [E, capacity, C], so that all experts are two batched products. Weights
/// start as those of FeedForward.
class MixtureOfExperts : public Module {
 public:
  MixtureOfExperts(int64_t width, int64_t hidden, Activation activation, Bias bias, double out_deviation,
                   const ExpertOptions& options);
  /// x [..., C] → the same shape. `routing`, if not null, receives the routing of all N positions.
  /// `real`, bool [...], is false for padding.
  Tensor forward(const Tensor& x, Routing* routing = nullptr, const Tensor& real = {}) const;
  Tensor router_logits(const Tensor& x) const;  ///< x [N, C] → [N, E]
  /// The outputs of the experts for a given routing: x [N, C] → [N, C].
  Tensor mix(const Tensor& x, const Routing& routing) const;
  void fields(Fields& f) override;
  MixtureOfExperts clone();

  Parameter router;           ///< [E, C]
  Parameter up, up_bias;      ///< [E, hidden, C] and [E, hidden]; twice the rows if gated
  Parameter down, down_bias;  ///< [E, C, hidden] and [E, C]; biases may be undefined

 private:
  Activation activation_;
  ExpertOptions options_;
};

}  // namespace vitrine::nn
