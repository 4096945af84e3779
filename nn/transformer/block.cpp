#include "nn/transformer/block.h"

#include "nn/transformer/mixers.h"
#include "ops/elementwise.h"

namespace vitrine::nn {

TransformerBlock::TransformerBlock(const BlockOptions& o)
    : mixer_norm(o.mixer.width, o.norm, o.norm_epsilon),
      mixer(make_mixer(o.mixer)),
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

Tensor TransformerBlock::feed(const Tensor& x, Routing* routing) const {
  return experts ? experts->forward(x, routing) : feed_forward->forward(x);
}

Tensor TransformerBlock::forward(const Tensor& x, const MixerCall& call, const MixerCall& source,
                                 Routing* routing) const {
  check(!cross || source.source.defined() || source.state,
        "TransformerBlock: the block has a cross-attention, and there is no source to read");
  if (options_.residual == Residual::pre) {
    const Tensor mixed = mixer->forward(mixer_norm.forward(x), call);
    AddNorm h = (cross ? *cross_norm : feed_forward_norm).forward(x, added(mixed));
    if (cross) h = feed_forward_norm.forward(h.sum(), added(cross->forward(h.y(), source)));
    return h.sum() + added(feed(h.y(), routing));
  }
  Tensor h = mixer_norm.forward(mixer_shortcut.forward(x), added(mixer->forward(x, call))).y();
  if (cross) h = cross_norm->forward(cross_shortcut->forward(h), added(cross->forward(h, source))).y();
  return feed_forward_norm.forward(feed_forward_shortcut.forward(h), added(feed(h, routing))).y();
}

Tensor TransformerBlock::mixer_part(const Tensor& x, const MixerCall& call) const {
  return added(mixer->forward(mixer_norm.forward(x), call));
}

Tensor TransformerBlock::feed_forward_part(const Tensor& x) const {
  return added(feed(feed_forward_norm.forward(x), nullptr));
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
  f("feed_forward_shortcut", feed_forward_shortcut);
  f("dropout", dropout);
  f("drop_path", drop_path);
}

}  // namespace vitrine::nn
