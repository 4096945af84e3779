#include "nn/layers/batch_norm.h"

#include "core/recompute.h"
#include "nn/init.h"
#include "ops/elementwise.h"
#include "ops/norm.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace vitrine::nn {

BatchNorm::BatchNorm(int64_t channels, BatchNormOptions o)
    : weight(constant({channels}, 1)),
      bias(constant({channels}, 0)),
      running_mean(zeros({channels})),
      running_var(ones({channels})),
      options_(o) {
  check(channels > 0, "BatchNorm: there are {} channels, wanted at least 1", channels);
  check(o.momentum >= 0 && o.momentum <= 1, "BatchNorm: the momentum is {}, wanted [0, 1]", o.momentum);
  check(o.eps >= 0, "BatchNorm: eps is {}, wanted at least 0", o.eps);
}

Tensor BatchNorm::forward(const Tensor& x) const {
  const int64_t channels = weight.numel(),
                axis = options_.axis < 0 ? options_.axis + x.rank() : options_.axis;
  check(x.rank() >= 2 && axis >= 0 && axis < x.rank() && x.size(axis) == channels,
        "BatchNorm: x is {}, wanted {} channels on axis {}", x.shape(), channels, options_.axis);
  Axes others, to_front = {axis}, back(static_cast<size_t>(x.rank()));
  Shape broadcast = Shape::filled(x.rank(), 1);
  broadcast[static_cast<int>(axis)] = channels;
  for (int64_t i = 0; i < x.rank(); ++i)
    if (i != axis) others.push_back(i), to_front.push_back(i);
  for (size_t i = 0; i < to_front.size(); ++i)
    back[static_cast<size_t>(to_front[i])] = static_cast<int64_t>(i);
  const auto per_channel = [&](const Tensor& c) { return reshape(c, broadcast); };
  const Tensor z = cast(x, accumulation_dtype(x.dtype()));
  if (!training()) {
    const Tensor scale = rsqrt(running_var + options_.eps) * weight.value();
    return cast((z - per_channel(running_mean)) * per_channel(scale) + per_channel(bias), x.dtype());
  }
  check(x.numel() > channels, "BatchNorm: x is {}, wanted at least two values per channel in training",
        x.shape());
  update(z, others);
  // One row per channel, for which a layer norm has a kernel.
  const Tensor rows = permute(z, to_front);
  const Tensor unit = layer_norm(reshape(rows, {channels, x.numel() / channels}), {}, {}, options_.eps);
  const Tensor y = permute(reshape(unit, rows.shape()), back);
  return cast(y * per_channel(weight) + per_channel(bias), x.dtype());
}

/// A block that is computed again in the backward pass updates once.
void BatchNorm::update(const Tensor& x, const Axes& others) const {
  if (recomputing()) return;
  const Tape::Pause pause;
  for (const auto& [running, batch] :
       {std::pair{running_mean, mean(x, others)}, {running_var, var(x, others, 1)}}) {
    Tensor to = running;
    scale_in_place(to, 1 - options_.momentum);
    add_in_place(to, batch, options_.momentum);
  }
}

void BatchNorm::fields(Fields& f) {
  f("weight", weight);
  f("bias", bias);
  f("running_mean", running_mean);
  f("running_var", running_var);
}

BatchNorm BatchNorm::clone() {
  return clone_into([this] { return BatchNorm(weight.numel(), options_); });
}

}  // namespace vitrine::nn
