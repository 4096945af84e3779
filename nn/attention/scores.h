// Score functions with parameters of their own. The parts in nn/attention/parts/ use them for
// heads; a decoder with one head may use them directly.
#pragma once

#include "core/tensor.h"

namespace vitrine::nn {

/// s_ij = w·tanh(Wq·q_i + Wk·k_j + b), a network with one hidden layer of A channels. The result is
/// [.., Tq, Tk] for q [.., Tq, Dq] and k [.., Tk, Dk]. query_weight is [.., A, Dq], key_weight
/// [.., A, Dk], weight and bias are [.., 1, 1, A]; an undefined bias is 0. A bias may differ from
/// query to query, from key to key, or both; for both a tensor [.., Tq, Tk, A] is stored. The
/// leading axes broadcast. Bahdanau, Cho, Bengio 2014. Without a bias this is the score "concat" of
/// Luong, Pham, Manning 2015, because W·[q; k] = Wq·q + Wk·k.
Tensor additive_scores(const Tensor& q, const Tensor& k, const Tensor& query_weight, const Tensor& key_weight,
                       const Tensor& weight, const Tensor& bias = {});

/// s_ij = q_iᵀ·W·k_j, with weight [.., Dq, Dk]: the score "general" of Luong, Pham, Manning 2015.
Tensor bilinear_scores(const Tensor& q, const Tensor& k, const Tensor& weight);

}  // namespace vitrine::nn
