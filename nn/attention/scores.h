// Score functions with parameters of their own. The parts in nn/attention/parts/ use them for heads,
// and a decoder with one head may use them directly.
#pragma once

#include "core/tensor.h"

namespace vitrine::nn {

/// s_ij = w·tanh(Wq·q_i + Wk·k_j + b), a network with one hidden layer of A channels.
/// q [.., Tq, Dq], k [.., Tk, Dk], query_weight [.., A, Dq], key_weight [.., A, Dk], weight and bias
/// [.., 1, 1, A]; an undefined bias is 0. The result is [.., Tq, Tk]. The leading axes broadcast. It
/// needs a tensor [.., Tq, Tk, A]. Bahdanau, Cho, Bengio 2014; without a bias it is the score
/// "concat" of Luong, Pham, Manning 2015, because W·[q; k] = Wq·q + Wk·k.
Tensor additive_scores(const Tensor& q, const Tensor& k, const Tensor& query_weight,
                       const Tensor& key_weight, const Tensor& weight, const Tensor& bias = {});

/// s_ij = q_iᵀ·W·k_j, with weight [.., Dq, Dk]: the score "general" of Luong, Pham, Manning 2015.
Tensor bilinear_scores(const Tensor& q, const Tensor& k, const Tensor& weight);

}  // namespace vitrine::nn
