#include "nn/transformer/block.h"

#include "nn/transformer/mixers.h"
#include "ops/elementwise.h"

namespace vitrine::nn {

TransformerBlock::TransformerBlock(const BlockOptions& o)
    : mixer_norm(o.mixer.width, o.norm),
      mixer(make_mixer(o.mixer)),
      cross_norm(o.cross ? std::make_unique<Norm>(o.mixer.width, o.norm) : nullptr),
      feed_forward_norm(o.mixer.width, o.norm),
      feed_forward(o.mixer.width, o.hidden ? o.hidden : 4 * o.mixer.width, o.activation, o.bias,
                   o.mixer.out_deviation),
      dropout(o.dropout),
      options_(o) {
  if (o.cross) cross = make_cross_attention(o.mixer);
}

Tensor TransformerBlock::forward(const Tensor& x, const MixerCall& call, const MixerCall& source) const {
  check(!cross || source.source.defined() || source.state,
        "TransformerBlock: the block has a cross-attention, and there is no source to read");
  if (options_.pre_norm) {
    const Tensor mixed = mixer->forward(mixer_norm.forward(x), call);
    AddNorm h = (cross ? *cross_norm : feed_forward_norm).forward(x, dropout.forward(mixed));
    if (cross) h = feed_forward_norm.forward(h.sum(), dropout.forward(cross->forward(h.y(), source)));
    return h.sum() + dropout.forward(feed_forward.forward(h.y()));
  }
  Tensor h = mixer_norm.forward(x, dropout.forward(mixer->forward(x, call))).y();
  if (cross) h = cross_norm->forward(h, dropout.forward(cross->forward(h, source))).y();
  return feed_forward_norm.forward(h, dropout.forward(feed_forward.forward(h))).y();
}

TransformerBlock TransformerBlock::clone() {
  return clone_into([this] { return TransformerBlock(options_); });
}

void TransformerBlock::fields(Fields& f) {
  f(mixer->kind() + "_norm", mixer_norm);
  f(mixer->kind(), *mixer);
  f("cross_norm", cross_norm);
  f("cross", cross);
  f("feed_forward_norm", feed_forward_norm);
  f("feed_forward", feed_forward);
  f("dropout", dropout);
}

}  // namespace vitrine::nn
