#include "nn/recurrent/rwkv4.h"

#include <cmath>
#include <vector>

#include "core/creation.h"
#include "nn/init.h"
#include "ops/activation.h"
#include "ops/elementwise.h"
#include "ops/view.h"
#include "ops/wkv.h"

namespace vitrine::nn {
namespace {

/// Channel c of C starts with f(c/(C − 1)).
template <class F>
Parameter by_channel(int64_t channels, F&& f) {
  std::vector<double> values;
  for (int64_t c = 0; c < channels; ++c)
    values.push_back(f(static_cast<double>(c) / static_cast<double>(std::max<int64_t>(1, channels - 1))));
  return Parameter(tensor(values, {channels}, DType::float32));
}

Tensor mixed(const Tensor& x, const Tensor& before, const Tensor& share) {
  return before + share * (x - before);
}

}  // namespace

Rwkv4::Rwkv4(const MixerOptions& o)
    : CausalMixer("rwkv4", o),
      // From channels that see the position itself to channels that see the one before it
      mix_receptance(by_channel(o.width, [](double c) { return std::sqrt(c); })),
      mix_key(by_channel(o.width, [](double c) { return c; })),
      mix_value(by_channel(o.width, [](double c) { return c; })),
      // Rates of forgetting from e^−5 to e^3 per position
      decay(by_channel(o.width, [](double c) { return 8 * std::pow(c, 0.7) - 5; })),
      bonus(by_channel(o.width, [](double) { return std::log(0.3); })),
      receptance(o.width, o.width, o.bias.query),
      key(o.width, o.width, o.bias.key),
      value(o.width, o.width, o.bias.value),
      out(o.width, o.width, o.bias.out, o.out_deviation) {}

Tensor Rwkv4::run(const Tensor& x, std::vector<Tensor>& state, MixerTrace* trace) const {
  const bool continued = !state.empty();
  const Tensor before = shifted(x, continued ? state[0] : Tensor());
  const Tensor r = sigmoid(receptance.forward(mixed(x, before, mix_receptance))),
               k = key.forward(mixed(x, before, mix_key)), v = value.forward(mixed(x, before, mix_value));
  const Tensor rate = neg(exp(Tensor(decay)));
  if (trace)
    trace->weights = weights_of(x.size(0), x.size(1), x.size(2), k,
                                [&](const Tensor& unit) { return wkv(k, unit, rate, bonus).y; });
  const WkvStates s = wkv(k, v, rate, bonus, continued ? WkvState{state[1], state[2]} : WkvState{});
  if (x.size(1) > 0) state = {vitrine::clone(select(x, 1, -1)), s.state.mean, s.state.log_weight};
  return out.forward(r * s.y);
}

std::string Rwkv4::explain(const MixerCall& call) const {
  return std::string("rwkv4: linear in the length: the op wkv keeps an average and a weight per channel") +
         (call.trace ? "; the weights are computed for display alone" : "");
}

void Rwkv4::fields(Fields& f) {
  f("mix_receptance", mix_receptance), f("mix_key", mix_key), f("mix_value", mix_value);
  f("decay", decay), f("bonus", bonus);
  f("receptance", receptance), f("key", key), f("value", value), f("out", out);
}

Rwkv4 Rwkv4::clone() {
  return clone_into([this] { return Rwkv4(options_); });
}

}  // namespace vitrine::nn
