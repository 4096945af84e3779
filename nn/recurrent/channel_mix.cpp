#include "nn/recurrent/channel_mix.h"

#include "nn/init.h"
#include "ops/activation.h"
#include "ops/elementwise.h"
#include "ops/view.h"

namespace vitrine::nn {
namespace {

std::string checked_name(FeedForwardKind kind) {
  check(kind != FeedForwardKind::dense, "ChannelMix: the kind is dense, wanted rwkv4 or rwkv7");
  return name_of(kind) + " channel mixing";
}

}  // namespace

ChannelMix::ChannelMix(FeedForwardKind kind, const MixerOptions& o, int64_t hidden)
    : CausalMixer(checked_name(kind), o),
      mix_receptance(kind == FeedForwardKind::rwkv4 ? constant({o.width}, 0.5) : Parameter()),
      mix_key(constant({o.width}, 0.5)),
      receptance(kind == FeedForwardKind::rwkv4 ? std::make_unique<Linear>(o.width, o.width, o.bias.query)
                                                : nullptr),
      key(o.width, hidden, o.bias.query),
      value(hidden, o.width, o.bias.query, o.out_deviation),
      kind_(kind) {}

Tensor ChannelMix::run(const Tensor& x, std::vector<Tensor>& state, MixerTrace* trace) const {
  check(trace == nullptr, "{}: there are no weights to show in a trace", kind());
  const Tensor before = shifted(x, state.empty() ? Tensor() : state[0]);
  if (x.size(1) > 0) state = {vitrine::clone(select(x, 1, -1))};
  const auto read = [&](const Tensor& x_key) { return value.forward(square(relu(key.forward(x_key)))); };
  if (kind_ == FeedForwardKind::rwkv7) return read(x + (before - x) * mix_key);
  const auto mixed = [&](const Tensor& share) { return before + (x - before) * share; };
  return sigmoid(receptance->forward(mixed(mix_receptance))) * read(mixed(mix_key));
}

std::string ChannelMix::explain(const MixerCall&) const {
  return kind() + ": linear in the length: a position reads itself and the one before it";
}

void ChannelMix::fields(Fields& f) {
  f("mix_receptance", mix_receptance), f("mix_key", mix_key);
  f("receptance", receptance), f("key", key), f("value", value);
}

ChannelMix ChannelMix::clone() {
  return clone_into([this] { return ChannelMix(kind_, options_, key.weight.shape()[0]); });
}

}  // namespace vitrine::nn
