#include "nn/recurrent/mamba2.h"

#include <algorithm>

#include "core/creation.h"
#include "nn/init.h"
#include "nn/layers/heads.h"
#include "nn/recurrent/mamba_steps.h"
#include "ops/activation.h"
#include "ops/convolution.h"
#include "ops/elementwise.h"
#include "ops/linear_scan.h"
#include "ops/norm.h"
#include "ops/view.h"

namespace vitrine::nn {
namespace {

Mamba2::Sizes checked(const MixerOptions& o, Mamba2::Sizes sizes) {
  if (sizes.channels == 0) sizes.channels = 2 * o.width;
  check(
      sizes.states > 0 && sizes.channels > 0 && sizes.kernel > 0 && o.heads > 0 &&
          sizes.channels % o.heads == 0,
      "mamba2: {} states, {} channels, kernel {} and {} heads, wanted at least 1 of each, and channels that "
      "the heads divide evenly",
      sizes.states, sizes.channels, sizes.kernel, o.heads);
  return sizes;
}

Tensor initial_rates(int64_t heads) {
  return log(arange(0, static_cast<double>(heads)) *
                 (15.0 / std::max<double>(1, static_cast<double>(heads - 1))) +
             1.0);
}

}  // namespace

Mamba2::Mamba2(const MixerOptions& o, const Sizes& sizes)
    : CausalMixer("mamba2", o),
      sizes_(checked(o, sizes)),
      in(o.width, 2 * sizes_.channels + 2 * sizes_.states + o.heads, o.bias.query),
      conv(sizes_.channels + 2 * sizes_.states, sizes_.kernel),
      step(initial_steps(o.heads)),
      rates(initial_rates(o.heads)),
      skip(constant({o.heads}, 1)),
      norm_scale(constant({sizes_.channels}, 1)),
      out(sizes_.channels, o.width, o.bias.out, o.out_deviation) {}

Tensor Mamba2::run(const Tensor& x, std::vector<Tensor>& state, MixerTrace* trace) const {
  const int64_t D = sizes_.channels, N = sizes_.states, H = options_.heads;
  const bool continued = !state.empty();
  const auto parts = split(in.forward(x), {D, D + 2 * N, H}, -1);
  const Tensor before = continued ? state[0] : Tensor();
  const auto read = split(silu(causal_conv1d(parts[1], conv.weight, conv.bias, before)), {D, N, N}, -1);
  // In float16 the sums of the state would overflow before their norm.
  const DType range = x.dtype() == DType::float16 ? DType::float32 : x.dtype();
  const Tensor u = cast(split_heads(read[0], H), range);  // [B, H, T, D/H]
  // [B, H, T]. Decays near 1 need more digits than 16 bits have.
  const DType wide = accumulation_dtype(x.dtype());
  const Tensor delta = transpose(softplus(cast(parts[2], wide) + cast(Tensor(step), wide)));
  const auto for_heads = [&](const Tensor& of_all) {
    return expand(unsqueeze(cast(of_all, range), 1), {x.size(0), H, x.size(1), N});
  };
  const Tensor keys = for_heads(read[1]), queries = for_heads(read[2]);
  LinearScanOptions scan{.log_decay = neg(delta * unsqueeze(exp(cast(Tensor(rates), wide)), -1))};
  const auto read_values = [&](const Tensor& values) {
    return linear_scan(queries, keys, values * unsqueeze(cast(delta, values.dtype()), -1), scan);
  };
  const Tensor skips = reshape(Tensor(skip), {H, 1, 1});
  if (trace)
    trace->weights = weights_of(x.size(0), x.size(1), D, u, [&](const Tensor& unit) {
      const Tensor values = split_heads(unit, H);
      return join_heads(read_values(values).o + skips * values);
    });
  if (continued) scan.state = state[1];
  const LinearScanStates s = read_values(u);
  if (x.size(1) > 0) state = {vitrine::clone(causal_conv1d_state(parts[1], sizes_.kernel, before)), s.state};
  const Tensor y = join_heads(s.o + skips * u) * silu(parts[0]);
  return out.forward(cast(rms_norm(y, cast(Tensor(norm_scale), range)), x.dtype()));
}

std::string Mamba2::explain(const MixerCall& call) const {
  return fmt::format("mamba2: linear in the length: the op linear_scan keeps a state [{}, {}] per head{}",
                     sizes_.states, sizes_.channels / options_.heads,
                     call.trace ? "; the weights are computed for display alone" : "");
}

void Mamba2::fields(Fields& f) {
  f("in", in), f("conv", conv), f("step", step), f("rates", rates);
  f("skip", skip), f("norm_scale", norm_scale), f("out", out);
}

Mamba2 Mamba2::clone() {
  return clone_into([this] { return Mamba2(options_, sizes_); });
}

}  // namespace vitrine::nn
