#include "ops/wkv.h"

#include <algorithm>
#include <cmath>

#include "core/creation.h"
#include "core/flops.h"
#include "core/record.h"
#include "ops/activation.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/kernels.h"
#include "ops/operands.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace vitrine {
namespace {

/// The operands, checked: sequences in one dtype, the rest in its wide dtype.
struct Scan {
  Tensor k, v, decay, bonus, mean, log_weight;
  DType dtype, wide;
  int64_t batch, time, channels;

  Scan(const Tensor& k0, const Tensor& v0, const Tensor& decay0, const Tensor& bonus0,
       const WkvState& state) {
    check(k0.rank() == 3, "wkv: k is {}, wanted [B, T, C]", k0.shape());
    batch = k0.size(0), time = k0.size(1), channels = k0.size(2);
    dtype = promote(k0.dtype(), v0.dtype()), wide = accumulation_dtype(dtype);
    k = given("k", k0, k0.shape(), dtype), v = given("v", v0, k0.shape(), dtype);
    decay = given("decay", decay0, {channels}, wide), bonus = given("bonus", bonus0, {channels}, wide);
    check(state.mean.defined() == state.log_weight.defined(),
          "wkv: of the state one tensor is defined; wanted mean and log_weight, or neither");
    const Shape row = {batch, channels};
    mean = state.mean.defined() ? given("mean", state.mean, row, wide) : zeros(row, wide, k.device());
    log_weight = state.mean.defined() ? given("log_weight", state.log_weight, row, wide)
                                      : full(row, -INFINITY, wide, k.device());
  }

 private:
  static Tensor given(const char* argument, const Tensor& x, const Shape& shape, DType type) {
    check_floating("wkv", argument, x);
    check(x.shape() == shape, "wkv: {} is {}, wanted {}", argument, x.shape(), shape);
    return cast(x, type);
  }
};

}  // namespace

WkvStates define::wkv(const Tensor& k0, const Tensor& v0, const Tensor& decay, const Tensor& bonus,
                      const WkvState& state) {
  const Scan s(k0, v0, decay, bonus, state);
  Tensor mean = s.mean, log_weight = s.log_weight;
  std::vector<Tensor> ys;
  for (int64_t t = 0; t < s.time; ++t) {
    const Tensor k = cast(select(s.k, 1, t), s.wide), v = cast(select(s.v, 1, t), s.wide);
    ys.push_back(mean + sigmoid(s.bonus + k - log_weight) * (v - mean));
    const Tensor left = log_weight + s.decay;
    mean = mean + sigmoid(k - left) * (v - mean);
    // log(e^left + e^k). maximum and abs would have a kink where both are equal.
    const Tensor past_is_larger = greater(left, k);
    log_weight =
        where(past_is_larger, left, k) + vitrine::softplus(where(past_is_larger, k - left, left - k));
  }
  return {ys.empty() ? s.v : cast(stack(ys, 1), s.dtype), {mean, log_weight}};
}

WkvStates wkv(const Tensor& k0, const Tensor& v0, const Tensor& decay0, const Tensor& bonus0,
              const WkvState& state) {
  const Scan s(k0, v0, decay0, bonus0, state);
  const auto inputs = {s.k, s.v, s.decay, s.bonus, s.mean, s.log_weight};
  if (const auto states = through_definition(inputs, [&] {
        return define::wkv(s.k, s.v, s.decay, s.bonus, {s.mean, s.log_weight});
      }))
    return *states;
  const Tensor k = packed(s.k), v = packed(s.v), decay = packed(s.decay), bonus = packed(s.bonus);
  Tensor y = empty_like(v), mean = empty(s.mean.shape(), s.wide, v.device()), log_weight = empty_like(mean),
         boundaries;
  if (std::any_of(inputs.begin(), inputs.end(), [](const Tensor& x) { return has_gradient(x); }))
    boundaries = empty({2, s.batch, (s.time + kScanChunk - 1) / kScanChunk, s.channels}, s.wide, v.device());
  // A position adds its value to the mean of its channel and reads the mean.
  const double flops = 4.0 * static_cast<double>(v.numel());
  count_flops("wkv", flops);
  VITRINE_RUN(wkv, y, mean, log_weight, boundaries, k, v, decay, bonus, packed(s.mean), packed(s.log_weight));
  const auto backward = [k = Saved(k), v = Saved(v), decay = Saved(decay), bonus = Saved(bonus),
                         boundaries = Saved(boundaries), shape = s.mean.shape(), wide = s.wide,
                         flops](const Backward& b) -> Grads {
    const Device device = k->device();
    const auto of_state = [&](int output) {
      return b.dy(output).defined() ? packed(b.dy(output)) : zeros(shape, wide, device);
    };
    const Tensor dy = b.dy(0).defined() ? packed(b.dy(0)) : zeros_like(v.get());
    Tensor dk = empty_like(k.get()), dv = empty_like(v.get()), dmean = empty(shape, wide, device),
           dlog_weight = empty_like(dmean), ddecay = empty_like(dmean), dbonus = empty_like(dmean);
    count_flops("wkv_backward", 2 * flops);
    VITRINE_RUN(wkv_backward, dk, dv, ddecay, dbonus, dmean, dlog_weight, dy, of_state(1), of_state(2),
                k.get(), v.get(), decay.get(), bonus.get(), boundaries.get());
    return {dk, dv, sum(ddecay, {0}), sum(dbonus, {0}), dmean, dlog_weight};
  };
  const auto states = record_all("wkv", inputs, {y, mean, log_weight}, backward);
  return {states[0], {states[1], states[2]}};
}

}  // namespace vitrine
