#include "nn/losses/contrastive.h"

#include "core/creation.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/join.h"
#include "ops/loss.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "ops/view.h"

namespace vitrine::nn {
namespace {

/// The loss of finding row i of `to` from row i of `from`, both of unit length.
Tensor direction(const Tensor& from, const Tensor& to, const Tensor& more, const ContrastiveOptions& o) {
  const Tensor targets = arange(0, static_cast<double>(from.size(0)), 1, DType::int64, from.device());
  Tensor cosines = matmul(from, transpose(to));
  if (o.margin != 0) cosines = cosines - o.margin * one_hot(targets, cosines.size(1), cosines.dtype());
  if (more.defined()) cosines = concat({cosines, matmul(from, transpose(more))}, 1);
  return cross_entropy(cosines / o.temperature, targets);
}

}  // namespace

Tensor info_nce(const Tensor& a, const Tensor& b, const Tensor& negatives, const ContrastiveOptions& o) {
  check(a.rank() == 2 && a.shape() == b.shape(), "info_nce: a is {} and b is {}, wanted the same [N, C]",
        a.shape(), b.shape());
  check(!negatives.defined() || (negatives.rank() == 2 && negatives.size(1) == a.size(1)),
        "info_nce: negatives is {}, wanted [M, {}]", negatives.defined() ? negatives.shape() : Shape(),
        a.size(1));
  check(o.temperature > 0, "info_nce: the temperature is {}, wanted above 0", o.temperature);
  const Tensor from = l2_normalize(a), to = l2_normalize(b);
  const Tensor more = negatives.defined() ? l2_normalize(negatives) : Tensor();
  const Tensor loss = direction(from, to, more, o);
  return o.symmetric ? (loss + direction(to, from, {}, o)) / 2 : loss;
}

}  // namespace vitrine::nn
