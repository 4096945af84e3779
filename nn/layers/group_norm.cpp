#include "nn/layers/group_norm.h"

#include "nn/init.h"
#include "ops/elementwise.h"
#include "ops/norm.h"
#include "ops/view.h"

namespace vitrine::nn {

GroupNorm::GroupNorm(int64_t groups, int64_t channels, double eps)
    : weight(constant({channels}, 1)), bias(constant({channels}, 0)), groups_(groups), eps_(eps) {
  check(groups > 0 && channels > 0 && channels % groups == 0,
        "GroupNorm: {} channels cannot form {} groups of equal size", channels, groups);
}

Tensor GroupNorm::forward(const Tensor& x) const {
  const int64_t channels = weight.numel();
  check(x.rank() >= 2 && x.size(1) == channels, "GroupNorm: x is {}, wanted {} channels on axis 1", x.shape(),
        channels);
  Shape per_channel = {channels};
  for (int axis = 2; axis < x.rank(); ++axis) per_channel.push_back(1);
  Shape one = x.shape();
  one[0] = 1;
  const Tensor z =
      reshape(layer_norm(reshape(x, {x.size(0), groups_, numel(one) / groups_}), {}, {}, eps_), x.shape());
  return z * reshape(weight, per_channel) + reshape(bias, per_channel);
}

void GroupNorm::fields(Fields& f) {
  f("weight", weight);
  f("bias", bias);
}

GroupNorm GroupNorm::clone() {
  return clone_into([this] { return GroupNorm(groups_, weight.numel(), eps_); });
}

}  // namespace vitrine::nn
