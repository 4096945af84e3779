#include "nn/recurrent/rwkv7.h"

#include <cmath>

#include "core/creation.h"
#include "nn/init.h"
#include "nn/layers/heads.h"
#include "ops/activation.h"
#include "ops/elementwise.h"
#include "ops/linear_scan.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace vitrine::nn {
namespace {

Tensor token_shift(const Tensor& x, const Tensor& before, const Tensor& share) {
  return x + (before - x) * share;
}

const MixerOptions& checked(const MixerOptions& o) {
  check_heads("rwkv7", o.width, o.heads);
  return o;
}

}  // namespace

Rwkv7::Bottleneck::Bottleneck(int64_t width, int64_t rank, double initial)
    : start(constant({width}, initial)),
      down(normal({width, rank}, 1 / std::sqrt(static_cast<double>(width)))),
      up(normal({rank, width}, 0.02)) {}

void Rwkv7::Bottleneck::fields(Fields& f) { f("start", start), f("down", down), f("up", up); }

Rwkv7::Rwkv7(const MixerOptions& o, int64_t rank, bool blends)
    : CausalMixer("rwkv7", checked(o)),
      mix_receptance(constant({o.width}, 0.5)),
      mix_decay(constant({o.width}, 0.5)),
      mix_key(constant({o.width}, 0.5)),
      mix_value(constant({o.width}, 0.5)),
      mix_erase(constant({o.width}, 0.5)),
      mix_gate(constant({o.width}, 0.5)),
      receptance(o.width, o.width, o.bias.query),
      key(o.width, o.width, o.bias.key),
      value(o.width, o.width, o.bias.value),
      out(o.width, o.width, o.bias.out, o.out_deviation),
      decay(o.width, rank, -2),  // w near 0.93: a state forgets over some 14 positions
      erase(o.width, rank, 0),
      gate(o.width, rank, 0),
      blend(blends ? std::make_unique<Bottleneck>(o.width, rank, 0) : nullptr),
      key_scale(constant({o.width}, 0.85)),
      key_erase(constant({o.width}, 1)),
      own(constant({o.heads, o.width / o.heads}, 0)),
      gain(constant({o.width}, 1)),
      bias(constant({o.width}, 0)),
      rank_(rank) {
  gate.start = Parameter();
}

Tensor Rwkv7::mix(const Tensor& x, const Tensor& first_values, std::vector<Tensor>& state,
                  MixerTrace* trace) const {
  const bool continued = !state.empty();
  const Tensor before = shifted(x, continued ? state[0] : Tensor());
  const auto heads_of = [&](const Tensor& y) { return split_heads(y, options_.heads); };
  const auto inner = [&](const Bottleneck& low, const Tensor& mix) {
    return matmul(token_shift(x, before, mix), low.down);
  };
  const Tensor x_value = token_shift(x, before, mix_value);
  const Tensor r = receptance.forward(token_shift(x, before, mix_receptance));
  Tensor k = key.forward(token_shift(x, before, mix_key)), v = value.forward(x_value);
  check(first_values.defined() == (blend != nullptr), "rwkv7: first_values are {}given, and the layer {}",
        first_values.defined() ? "" : "not ", blend ? "blends" : "does not blend");
  if (blend)
    v = v + (first_values - v) * sigmoid(blend->start + matmul(matmul(x_value, blend->down), blend->up));
  const Tensor log_decay =
      sigmoid(decay.start + matmul(tanh(inner(decay, mix_decay)), decay.up)) * -std::exp(-0.5);
  const Tensor a = sigmoid(erase.start + matmul(inner(erase, mix_erase), erase.up));
  const Tensor g = matmul(sigmoid(inner(gate, mix_gate)), gate.up);
  const Tensor direction = l2_normalize(heads_of(k * key_scale));
  k = k * (1.0 + (a - 1.0) * key_erase);
  // In float16 the sums of the state would overflow before their norm.
  const DType wide = x.dtype() == DType::float16 ? DType::float32 : x.dtype();
  LinearScanOptions scan{.log_decay = cast(heads_of(log_decay), wide),
                         .erase_to = cast(neg(heads_of(a) * direction), wide),
                         .erase_from = cast(direction, wide)};
  const Tensor queries = cast(heads_of(r), wide), keys = cast(heads_of(k), wide),
               values = cast(heads_of(v), wide);
  if (trace) {
    trace->q = queries, trace->k = keys, trace->v = values;
    const Tape::Pause pause;
    const int64_t time = x.size(1);
    const Tensor unit = expand(eye(time, -1, wide, x.device()), {x.size(0), options_.heads, time, time});
    trace->weights = linear_scan(queries, keys, unit, scan).o;
  }
  if (continued) scan.state = state[1];
  const LinearScanStates s = linear_scan(queries, keys, values, scan);
  if (x.size(1) > 0) state = {vitrine::clone(select(x, 1, -1)), s.state};
  const Tensor share = sum(queries * keys * unsqueeze(own, 1), {-1}, KeepAxes::yes);
  const Tensor y = join_heads(layer_norm(s.o, {}, {}, eps)) * gain + bias + join_heads(share * values);
  return out.forward(cast(y * g, x.dtype()));
}

Tensor Rwkv7::run(const Tensor& x, std::vector<Tensor>& state, MixerTrace* trace) const {
  return mix(x, {}, state, trace);
}

std::string Rwkv7::explain(const MixerCall& call) const {
  const int64_t size = options_.width / options_.heads;
  return fmt::format("rwkv7: linear in the length: the op linear_scan keeps a state [{}, {}] per head{}",
                     size, size, call.trace ? "; the weights are computed for display alone" : "");
}

void Rwkv7::fields(Fields& f) {
  f("mix_receptance", mix_receptance), f("mix_decay", mix_decay), f("mix_key", mix_key);
  f("mix_value", mix_value), f("mix_erase", mix_erase), f("mix_gate", mix_gate);
  f("receptance", receptance), f("key", key), f("value", value), f("out", out);
  f("decay", decay), f("erase", erase), f("gate", gate), f("blend", blend);
  f("key_scale", key_scale), f("key_erase", key_erase), f("own", own);
  f("gain", gain), f("bias", bias);
}

Rwkv7 Rwkv7::clone() {
  return clone_into([this] { return Rwkv7(options_, rank_, blend != nullptr); });
}

}  // namespace vitrine::nn
