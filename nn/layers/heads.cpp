#include "nn/layers/heads.h"

#include "ops/view.h"

namespace vitrine::nn {

Tensor split_heads(const Tensor& x, int64_t heads) {
  return permute(reshape(x, {x.size(0), x.size(1), heads, x.size(2) / heads}), {0, 2, 1, 3});
}

Tensor join_heads(const Tensor& x) {
  return reshape(permute(x, {0, 2, 1, 3}), {x.size(0), x.size(2), x.size(1) * x.size(3)});
}

}  // namespace vitrine::nn
