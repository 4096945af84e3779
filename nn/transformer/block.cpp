#include "nn/transformer/block.h"

#include <string>
#include <utility>

#include "core/creation.h"
#include "nn/layers/zero_padding.h"
#include "nn/transformer/mixers.h"
#include "ops/elementwise.h"
#include "ops/view.h"

namespace vitrine::nn {

void BlockOptions::validate() const {
  if (feed_forward == FeedForwardKind::dense) return;
  const std::string kind = name_of(feed_forward);
  check(experts.count == 0, "feed-forward: the part is {}, and there are {} experts; wanted one of the two",
        kind, experts.count);
  check(residual != Residual::deepnet,
        "feed-forward: deepnet has no initial weights for {}; wanted another residual connection", kind);
}

Tensor real_positions(const MixerCall& call, int64_t time) {
  const Tensor before_end = visible_positions(call.lengths, time), &start = call.mask.start;
  if (!start.defined()) return before_end;
  const int64_t past = call.state ? call.state->length() : 0;
  const Tensor position =
      arange(static_cast<double>(past), static_cast<double>(past + time), 1, DType::int64, start.device());
  const Tensor after_start = greater_equal(position, unsqueeze(start, -1));
  return before_end.defined() ? logical_and(before_end, after_start) : after_start;
}

/// The options of the mixer. In a decoder that reads a source they are those of the
/// cross-attention, too, which has heads of keys where a recurrence has none.
static MixerOptions own_options(const BlockOptions& o) {
  MixerOptions own = o.mixer;
  if (o.cross && !has_key_heads(own.name)) own.key_heads = 0;
  return own;
}

TransformerBlock::TransformerBlock(const BlockOptions& o)
    : mixer_norm((o.validate(), o.mixer.width), o.norm, o.norm_epsilon),
      mixer(make_mixer(own_options(o))),
      mixer_shortcut(o.residual, o.mixer.width, o.deep_norm.alpha),
      cross_norm(o.cross ? std::make_unique<Norm>(o.mixer.width, o.norm, o.norm_epsilon) : nullptr),
      feed_forward_norm(o.mixer.width, o.norm, o.norm_epsilon),
      feed_forward_shortcut(o.residual, o.mixer.width, o.deep_norm.alpha),
      dropout(o.dropout),
      drop_path(o.drop_path),
      options_(o) {
  const int64_t width = o.mixer.width, hidden = o.hidden ? o.hidden : 4 * width;
  if (o.experts.count > 0)
    experts = std::make_unique<MixtureOfExperts>(width, hidden, o.activation, o.bias, o.mixer.out_deviation,
                                                 o.experts);
  else if (o.feed_forward != FeedForwardKind::dense)
    channel_mix = std::make_unique<ChannelMix>(
        o.feed_forward,
        MixerOptions{
            .width = width, .bias = o.bias, .out_deviation = o.mixer.out_deviation, .causal = o.mixer.causal},
        hidden);
  else
    feed_forward = std::make_unique<FeedForward>(width, hidden, o.activation, o.bias, o.mixer.out_deviation);
  if (o.cross) {
    cross = make_cross_attention(o.mixer);
    cross_shortcut = std::make_unique<Shortcut>(o.residual, width, o.deep_norm.alpha);
  }
  if (o.residual != Residual::deepnet) return;
  initialize_deepnet(*mixer, o.deep_norm.beta);
  if (cross) initialize_deepnet(*cross, o.deep_norm.beta);
  if (feed_forward) initialize_deepnet(*feed_forward, o.deep_norm.beta);
  if (experts) initialize_deepnet(*experts, o.deep_norm.beta);
}

Tensor TransformerBlock::added(const Tensor& f) const {
  if (on_part) on_part(f);
  return drop_path.forward(dropout.forward(f));
}

Tensor TransformerBlock::feed(const Tensor& x, const MixerCall& call, Routing* routing) const {
  if (experts) return experts->forward(x, routing, real_positions(call, x.size(1)));
  if (feed_forward) return feed_forward->forward(x);
  return channel_mix->forward(
      x, {.mask = call.mask, .lengths = call.lengths, .state = states_of(call.state).channels});
}

std::unique_ptr<DecodingState> TransformerBlock::make_state(int64_t batch, int64_t capacity) const {
  auto own = mixer->make_state(batch, capacity);
  if (!cross && !channel_mix) return own;
  auto all = std::make_unique<StateList>();
  all->states.push_back(std::move(own));
  if (cross) all->states.push_back(cross->make_source_state());
  if (channel_mix) all->states.push_back(channel_mix->make_state(batch, capacity));
  return all;
}

TransformerBlock::States TransformerBlock::states_of(DecodingState* state) const {
  if (state == nullptr || (!cross && !channel_mix)) return {.mixer = state};
  const auto* const list = dynamic_cast<StateList*>(state);
  const size_t parts = 1 + (cross ? 1 : 0) + (channel_mix ? 1 : 0);
  check(list != nullptr && list->states.size() == parts,
        "TransformerBlock: the state is not one of {} parts; wanted what make_state gave", parts);
  return {.mixer = list->states[0].get(),
          .cross = cross ? list->states[1].get() : nullptr,
          .channels = channel_mix ? list->states.back().get() : nullptr};
}

Tensor TransformerBlock::forward(const Tensor& x, const MixerCall& call, const MixerCall& from,
                                 Routing* routing) const {
  const States states = states_of(call.state);
  MixerCall own = call, source = from;
  own.state = states.mixer, source.state = states.cross;
  check(!cross || source.source.defined() || source.state,
        "TransformerBlock: the block has a cross-attention, and there is no source to read");
  if (options_.residual == Residual::pre) {
    const Tensor mixed = mixer->forward(mixer_norm.forward(x), own);
    AddNorm h = (cross ? *cross_norm : feed_forward_norm).forward(x, added(mixed));
    if (cross) h = feed_forward_norm.forward(h.sum(), added(cross->forward(h.y(), source)));
    return h.sum() + added(feed(h.y(), call, routing));
  }
  Tensor h = mixer_norm.forward(mixer_shortcut.forward(x), added(mixer->forward(x, own))).y();
  if (cross) h = cross_norm->forward(cross_shortcut->forward(h), added(cross->forward(h, source))).y();
  return feed_forward_norm.forward(feed_forward_shortcut.forward(h), added(feed(h, call, routing))).y();
}

Tensor TransformerBlock::mixer_part(const Tensor& x, const MixerCall& call) const {
  MixerCall own = call;
  own.state = states_of(call.state).mixer;
  return added(mixer->forward(mixer_norm.forward(x), own));
}

Tensor TransformerBlock::feed_forward_part(const Tensor& x, const MixerCall& call) const {
  return added(feed(feed_forward_norm.forward(x), call));
}

TransformerBlock TransformerBlock::clone() {
  return clone_into([this] { return TransformerBlock(options_); });
}

std::vector<Shortcut*> TransformerBlock::shortcuts() {
  if (cross) return {&mixer_shortcut, cross_shortcut.get(), &feed_forward_shortcut};
  return {&mixer_shortcut, &feed_forward_shortcut};
}

void TransformerBlock::fields(Fields& f) {
  f(mixer->kind() + "_norm", mixer_norm);
  f(mixer->kind(), *mixer);
  f(mixer->kind() + "_shortcut", mixer_shortcut);
  f("cross_norm", cross_norm);
  f("cross", cross);
  f("cross_shortcut", cross_shortcut);
  f("feed_forward_norm", feed_forward_norm);
  f("feed_forward", feed_forward);
  f("experts", experts);
  f("channel_mix", channel_mix);
  f("feed_forward_shortcut", feed_forward_shortcut);
  f("dropout", dropout);
  f("drop_path", drop_path);
}

}  // namespace vitrine::nn
