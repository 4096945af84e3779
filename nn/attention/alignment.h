// Attention between two sequences that are compared with each other, for entailment and for
// question answering.
#pragma once

#include "nn/attention/read_out.h"
#include "nn/module.h"

namespace vitrine::nn {

/// Two sequences, each enhanced by what the other one has at the aligned positions.
struct Alignment {
  Tensor a, b;                  ///< [B, Ta, 4·C] and [B, Tb, 4·C]
  Tensor a_weights, b_weights;  ///< of the other side's positions: [B, Ta, Tb] and [B, Tb, Ta]
};

/// Soft alignment of a [B, Ta, C] and b [B, Tb, C]: e = a·bᵀ, c = softmax over b of e, times b, and
/// the result for a is [a; c; a − c; a∘c]. The result for b is the same, over a. The masks, bool
/// [B, Ta] and [B, Tb], hide padding of the other side; undefined: none. A side without visible
/// positions gives c = 0. `read` reads the other side by its weights, for example by LASER. Chen et
/// al. 2017 (ESIM).
Alignment soft_alignment(const Tensor& a, const Tensor& b, const Tensor& a_mask = {},
                         const Tensor& b_mask = {}, const ReadOut& read = ReadOut());

/// Attention flow between a context h [B, T, C] and a query u [B, J, C], with the similarity
/// s_ij = w·[h_i; u_j; h_i∘u_j]:
///
///   ũ_i = Σ_j softmax_j(s_ij)·u_j,  h̃ = Σ_i softmax_i(max_j s_ij)·h_i,  y = [h; ũ; h∘ũ; h∘h̃]
///
/// The two weighted means are read by a ReadOut, such as that of LASER. Seo et al. 2017 (BiDAF).
class AttentionFlow : public Module {
 public:
  /// h and u have `width` channels. w starts as N(0, 1/(3·width)).
  explicit AttentionFlow(int64_t width);

  struct Result {
    Tensor y;                ///< [B, T, 4·C]
    Tensor query_weights;    ///< [B, T, J]: softmax_j(s_ij), what each position reads of the query
    Tensor context_weights;  ///< [B, T]: softmax_i(max_j s_ij), what the query reads of the context
  };
  /// The masks, bool [B, T] and [B, J], are false for padding; undefined: none.
  Result attend(const Tensor& h, const Tensor& u, const Tensor& h_mask = {}, const Tensor& u_mask = {},
                const ReadOut& read = ReadOut()) const;
  Tensor forward(const Tensor& h, const Tensor& u, const Tensor& h_mask = {},
                 const Tensor& u_mask = {}) const {
    return attend(h, u, h_mask, u_mask).y;
  }
  void fields(Fields& f) override { f("weight", weight); }
  AttentionFlow clone();

  Parameter weight;  ///< w [3·C]
};

}  // namespace vitrine::nn
