#include "nn/layers/mixture_of_experts.h"

#include <algorithm>
#include <cmath>

#include "core/creation.h"
#include "core/record.h"
#include "nn/init.h"
#include "nn/layers/over_time.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/join.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/sort.h"
#include "ops/view.h"

namespace vitrine::nn {
namespace {

/// For choices in the order in which they are served [M]: how many earlier ones have the same
/// expert. `load` [E] receives the number of choices of each expert. Only those count for which
/// `real` [M], if it is defined, is true.
Tensor places(const Tensor& experts, int64_t count, const Tensor& real, Tensor& load) {
  Tensor chosen = one_hot(experts, count, DType::int64);
  if (real.defined()) chosen = where(unsqueeze(real, 1), chosen, 0);
  load = sum(chosen, {0});
  return squeeze(gather(cumsum(chosen, 0, true), 1, unsqueeze(experts, 1)), {1});
}

/// The biases [E, ·] for the rows [E, capacity, ·].
Tensor with_bias(const Tensor& rows, const Parameter& bias) {
  return bias.defined() ? rows + unsqueeze(bias, 1) : rows;
}

}  // namespace

Routing route(const Tensor& logits, int64_t per_token, int64_t capacity, const Tensor& real) {
  check(logits.rank() == 2 && per_token >= 1 && per_token <= logits.size(1),
        "route: {} experts per token and logits {}, wanted at least 1 of E experts and [N, E]", per_token,
        logits.shape());
  check(capacity >= 0, "route: the capacity is {}, wanted at least 0", capacity);
  const int64_t tokens = logits.size(0), experts = logits.size(1);
  check(!real.defined() || (real.shape() == Shape{tokens} && real.dtype() == DType::boolean),
        "route: `real` is {}, wanted bool [{}]", describe(real), tokens);
  const Tensor p = softmax(logits);
  Routing r;
  r.real = real;
  r.experts = topk(detach(p), per_token).indices;
  r.gates = gather(p, 1, r.experts);
  if (per_token > 1) r.gates = r.gates / sum(r.gates, {1}, KeepAxes::yes);
  Tensor load;
  const Tensor in_order = reshape(transpose(r.experts), {per_token * tokens});
  const Tensor counted = real.defined() ? tile(real, {per_token}) : Tensor();
  const Tensor place = places(in_order, experts, counted, load);
  r.capacity =
      capacity > 0 || tokens == 0 ? capacity : std::max<int64_t>(1, static_cast<int64_t>(max(load).item()));
  Tensor kept = less(place, full_like(place, static_cast<double>(r.capacity)));
  if (real.defined()) kept = logical_and(kept, counted);
  r.slots = contiguous(transpose(reshape(where(kept, place, -1), {per_token, tokens})));
  const Tensor lost = cast(unsqueeze(logical_not(kept), 1), DType::float32);
  r.dropped = lost.numel() > 0 ? reshape(mean_of_real(lost, counted), {}) : sum(lost);
  return r;
}

Tensor balance_loss(const Tensor& logits, const Routing& r) {
  const int64_t experts = logits.size(1);
  const Tensor share = mean_of_real(one_hot(select(r.experts, 1, 0), experts, logits.dtype()), r.real);
  return static_cast<double>(experts) * sum(share * mean_of_real(softmax(logits), r.real));
}

Tensor z_loss(const Tensor& logits, const Tensor& real) {
  return reshape(mean_of_real(square(log_sum_exp(logits, {-1}, KeepAxes::yes)), real), {});
}

MixtureOfExperts::MixtureOfExperts(int64_t width, int64_t hidden, Activation activation, Bias bias,
                                   double out_deviation, const ExpertOptions& o)
    : activation_(activation), options_(o) {
  check(o.count >= 1, "MixtureOfExperts: there are {} experts, wanted at least 1", o.count);
  check(o.per_token >= 1 && o.per_token <= o.count,
        "MixtureOfExperts: {} experts per token, wanted at least 1 and at most the {} experts", o.per_token,
        o.count);
  check(o.capacity_factor >= 0, "MixtureOfExperts: the capacity factor is {}, wanted at least 0",
        o.capacity_factor);
  const int64_t inside = inputs_per_output(activation) * hidden;
  router = normal({o.count, width}, 0.02);
  up = normal({o.count, inside, width}, 0.02);
  down = normal({o.count, width, hidden}, out_deviation);
  if (bias == Bias::no) return;
  up_bias = constant({o.count, inside}, 0);
  down_bias = constant({o.count, width}, 0);
}

Tensor MixtureOfExperts::router_logits(const Tensor& x) const {
  const DType wide = accumulation_dtype(x.dtype());
  return linear(cast(x, wide), cast(router, wide));
}

Tensor MixtureOfExperts::mix(const Tensor& x, const Routing& r) const {
  const int64_t tokens = x.size(0), experts = options_.count, rows = experts * r.capacity;
  const Tensor kept = greater_equal(r.slots, zeros_like(r.slots));
  // The row of each choice among those of all experts; the dropped ones share a row past the end.
  const Tensor row = where(kept, r.experts * static_cast<double>(r.capacity) + r.slots,
                           full_like(r.slots, static_cast<double>(rows)));
  const Tensor token =
      repeat(arange(0, static_cast<double>(tokens), 1, DType::int64, x.device()), r.experts.size(1), 0);
  // The token in each row. An empty row reads token 0, and its output is not read.
  const Tensor source =
      slice(scatter_add(zeros({rows + 1}, DType::int64, x.device()), 0, reshape(row, {row.numel()}), token),
            0, 0, rows);
  const Tensor in = reshape(index_select(x, 0, source), {experts, r.capacity, x.size(1)});
  const Tensor h = activate(activation_, with_bias(matmul(in, transpose(up)), up_bias));
  const Tensor out = reshape(with_bias(matmul(h, transpose(down)), down_bias), {rows, x.size(1)});
  // A dropped choice reads row 0, which is replaced by 0: NaN times 0 would still be NaN.
  const Tensor chosen = where(unsqueeze(kept, 2), index_select(out, 0, where(kept, row, 0)), 0.0);
  return cast(sum(unsqueeze(where(kept, r.gates, 0), 2) * chosen, {1}), x.dtype());
}

Tensor MixtureOfExperts::forward(const Tensor& x, Routing* routing, const Tensor& given) const {
  const ModuleScope scope("experts");
  check(x.rank() >= 1 && x.size(-1) == router.shape()[1], "MixtureOfExperts: x is {}, wanted [..., {}]",
        x.shape(), router.shape()[1]);
  check(!given.defined() || given.numel() * x.size(-1) == x.numel(),
        "MixtureOfExperts: `real` is {}, wanted one bool for each position of {}", describe(given),
        x.shape());
  if (x.numel() == 0) return x;
  const Tensor tokens = reshape(x, {x.numel() / x.size(-1), x.size(-1)}), logits = router_logits(tokens);
  const double share =
      static_cast<double>(options_.per_token * tokens.size(0)) / static_cast<double>(options_.count);
  const Tensor real = given.defined() ? reshape(given, {tokens.size(0)}) : Tensor();
  // No expert gets a token twice, so that more places than tokens stay empty.
  const double capacity =
      std::min(std::ceil(options_.capacity_factor * share), static_cast<double>(tokens.size(0)));
  Routing r = route(logits, options_.per_token, training() ? static_cast<int64_t>(capacity) : 0, real);
  const Tensor y = reshape(mix(tokens, r), x.shape());
  if (routing == nullptr) return y;
  if (training())
    r.auxiliary = options_.balance * balance_loss(logits, r) + options_.z * z_loss(logits, real);
  *routing = std::move(r);
  return y;
}

void MixtureOfExperts::fields(Fields& f) {
  f("router", router);
  f("up", up);
  f("up_bias", up_bias);
  f("down", down);
  f("down_bias", down_bias);
}

MixtureOfExperts MixtureOfExperts::clone() {
  return clone_into([this] {
    const Shape& w = down.shape();
    return MixtureOfExperts(w[1], w[2], activation_, down_bias.defined() ? Bias::yes : Bias::no, 0, options_);
  });
}

}  // namespace vitrine::nn
