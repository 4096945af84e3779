#include "nn/models/set_encoder.h"

#include "nn/layers/over_time.h"
#include "nn/transformer/mixers.h"
#include "ops/view.h"

namespace vitrine::nn {
namespace {

const MixerOptions& without_order(const StackOptions& options) {
  const MixerOptions& mixer = options.block.mixer;
  check(!depends_on_order(mixer),
        "SetEncoder: the mixer {} depends on the order of the items, and a set has none", mixer.name);
  return mixer;
}

}  // namespace

SetEncoder::SetEncoder(int64_t channels, const StackOptions& options)
    : input(channels, without_order(options).width),
      encoder(options),
      score(options.block.mixer.width, 1),
      options_(options) {
  named_parameters();  // sets the parameters' names, for messages and drawings
}

Tensor SetEncoder::features(const Tensor& items, const StackCall& call) const {
  check(items.rank() == 3, "SetEncoder: the items are {}, wanted [B, N, channels]", items.shape());
  return encoder.forward(input.forward(cast(items, input.weight.dtype())), call);
}

Tensor SetEncoder::scores(const Tensor& features) const { return squeeze(score.forward(features), {-1}); }

Tensor SetEncoder::summary(const Tensor& features, const Tensor& lengths) const {
  return mean_over_time(features, lengths);
}

void SetEncoder::fields(Fields& f) {
  f("input", input);
  f("encoder", encoder);
  f("score", score);
}

SetEncoder SetEncoder::clone() {
  return clone_into([this] { return SetEncoder(input.weight.shape()[1], options_); });
}

}  // namespace vitrine::nn
