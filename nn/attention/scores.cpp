#include "nn/attention/scores.h"

#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace vitrine::nn {

Tensor additive_scores(const Tensor& q, const Tensor& k, const Tensor& query_weight, const Tensor& key_weight,
                       const Tensor& weight, const Tensor& bias) {
  Tensor from_queries = unsqueeze(matmul(q, transpose(query_weight)), -2);
  if (bias.defined()) from_queries = from_queries + bias;
  const Tensor from_keys = unsqueeze(matmul(k, transpose(key_weight)), -3);
  return sum(tanh(from_queries + from_keys) * weight, {-1});
}

Tensor bilinear_scores(const Tensor& q, const Tensor& k, const Tensor& weight) {
  return matmul(matmul(q, weight), transpose(k));
}

}  // namespace vitrine::nn
