#include "nn/attention/scores.h"

#include "ops/additive_scores.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace vitrine::nn {
namespace {

/// The shape of x without its last `own` axes.
Shape leading_axes(const Tensor& x, int own) {
  Shape shape = x.shape();
  for (int i = 0; i < own; ++i) shape.erase(shape.rank() - 1);
  return shape;
}

/// x without up to `count` axes of size 1 before its last one.
Tensor without_positions(const Tensor& x, int count) {
  Shape shape = x.shape();
  for (int i = 0; i < count && shape.rank() > 1; ++i) shape.erase(shape.rank() - 2);
  return reshape(x, shape);
}

/// x repeated to these leading axes before its last `own` axes.
Tensor with_leading_axes(const Tensor& x, Shape leading, int own) {
  for (int i = x.rank() - own; i < x.rank(); ++i) leading.push_back(x.shape()[i]);
  return expand(x, leading);
}

}  // namespace

Tensor additive_scores(const Tensor& q, const Tensor& k, const Tensor& query_weight, const Tensor& key_weight,
                       const Tensor& weight, const Tensor& bias) {
  Tensor from_queries = matmul(q, transpose(query_weight)), from_keys = matmul(k, transpose(key_weight));
  if (bias.defined()) {
    if (bias.rank() < 3 || bias.size(-2) == 1)
      from_queries = from_queries + without_positions(bias, 1);
    else if (bias.size(-3) == 1)
      from_keys = from_keys + squeeze(bias, {-3});
    else
      return sum(tanh(unsqueeze(from_queries, -2) + unsqueeze(from_keys, -3) + bias) * weight, {-1});
  }
  const Tensor w = without_positions(weight, 2);
  const Shape leading =
      broadcast("additive_scores",
                broadcast("additive_scores", leading_axes(from_queries, 2), leading_axes(from_keys, 2)),
                leading_axes(w, 1));
  return vitrine::additive_scores(with_leading_axes(from_queries, leading, 2),
                                  with_leading_axes(from_keys, leading, 2), with_leading_axes(w, leading, 1));
}

Tensor bilinear_scores(const Tensor& q, const Tensor& k, const Tensor& weight) {
  return matmul(matmul(q, weight), transpose(k));
}

}  // namespace vitrine::nn
