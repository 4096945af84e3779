#include "nn/recurrent/mamba.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/creation.h"
#include "nn/init.h"
#include "nn/recurrent/mamba_steps.h"
#include "ops/activation.h"
#include "ops/convolution.h"
#include "ops/elementwise.h"
#include "ops/selective_scan.h"
#include "ops/view.h"

namespace vitrine::nn {
namespace {

Mamba::Sizes checked(const MixerOptions& o, Mamba::Sizes sizes) {
  check(sizes.states > 0 && sizes.channels >= 0 && sizes.kernel > 0 && sizes.rank >= 0,
        "mamba: {} states, {} channels, kernel {} and rank {}, wanted at least 1 of each", sizes.states,
        sizes.channels, sizes.kernel, sizes.rank);
  if (sizes.channels == 0) sizes.channels = 2 * o.width;
  if (sizes.rank == 0) sizes.rank = (o.width + 15) / 16;
  return sizes;
}

Tensor initial_rates(int64_t channels, int64_t states) {
  std::vector<double> values;
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t n = 1; n <= states; ++n) values.push_back(std::log(static_cast<double>(n)));
  return tensor(values, {channels, states}, DType::float32);
}

}  // namespace

Tensor initial_steps(int64_t count) {
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) {
    const double place = static_cast<double>(i) / static_cast<double>(std::max<int64_t>(1, count - 1));
    const double delta = std::exp(std::log(0.001) + place * std::log(100.0));
    values.push_back(delta + std::log(-std::expm1(-delta)));  // the inverse of softplus
  }
  return tensor(values, {count}, DType::float32);
}

Mamba::Mamba(const MixerOptions& o, const Sizes& sizes)
    : CausalMixer("mamba", o),
      sizes_(checked(o, sizes)),
      in(o.width, 2 * sizes_.channels, o.bias.query),
      conv(sizes_.channels, sizes_.kernel),
      select(sizes_.channels, sizes_.rank + 2 * sizes_.states, Bias::no),
      step(sizes_.rank, sizes_.channels, Bias::yes, 1 / std::sqrt(static_cast<double>(sizes_.rank))),
      rates(initial_rates(sizes_.channels, sizes_.states)),
      skip(constant({sizes_.channels}, 1)),
      out(sizes_.channels, o.width, o.bias.out, o.out_deviation) {
  step.bias.assign(initial_steps(sizes_.channels));
}

Tensor Mamba::run(const Tensor& x, std::vector<Tensor>& state, MixerTrace* trace) const {
  const bool continued = !state.empty();
  const auto halves = split(in.forward(x), sizes_.channels, -1);
  const Tensor before = continued ? state[0] : Tensor();
  const Tensor u = silu(causal_conv1d(halves[0], conv.weight, conv.bias, before));
  const auto selected = split(select.forward(u), {sizes_.rank, sizes_.states, sizes_.states}, -1);
  const Tensor delta = softplus(step.forward(selected[0])), a = neg(exp(Tensor(rates)));
  const auto scan = [&](const Tensor& values, const SelectiveScanOptions& options) {
    return selective_scan(values, delta, a, selected[1], selected[2], options);
  };
  if (trace)
    trace->weights = weights_of(x.size(0), x.size(1), sizes_.channels, u,
                                [&](const Tensor& unit) { return scan(unit, {.skip = skip}).y; });
  const SelectiveScanStates s = scan(u, {.skip = skip, .state = continued ? state[1] : Tensor()});
  if (x.size(1) > 0) state = {vitrine::clone(causal_conv1d_state(halves[0], sizes_.kernel, before)), s.state};
  return out.forward(s.y * silu(halves[1]));
}

std::string Mamba::explain(const MixerCall& call) const {
  return fmt::format("mamba: linear in the length: the op selective_scan keeps {} numbers per channel{}",
                     sizes_.states, call.trace ? "; the weights are computed for display alone" : "");
}

void Mamba::fields(Fields& f) {
  f("in", in), f("conv", conv), f("select", select), f("step", step);
  f("rates", rates), f("skip", skip), f("out", out);
}

Mamba Mamba::clone() {
  return clone_into([this] { return Mamba(options_, sizes_); });
}

}  // namespace vitrine::nn
