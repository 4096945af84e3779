#include "nn/models/encoder_decoder.h"

#include <cmath>

#include "core/record.h"
#include "nn/layers/xavier.h"
#include "nn/models/stack_settings.h"
#include "nn/transformer/mixers.h"
#include "nn/transformer/position_rows.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"

namespace vitrine::nn {
namespace {

MixerOptions mixer_options(const EncoderDecoderOptions& o, int64_t context) {
  return {.width = o.width, .heads = o.heads, .context = context, .name = o.mixer, .bias = o.bias};
}

StackOptions stack_options(const EncoderDecoderOptions& o, bool decoder) {
  const int64_t layers = decoder ? o.decoder_layers : o.encoder_layers;
  return {.block = {.mixer = mixer_options(o, decoder ? o.context : o.source_context),
                    .cross = decoder,
                    .hidden = o.hidden,
                    .activation = o.activation,
                    .norm = o.norm,
                    .residual = o.residual,
                    .bias = o.bias,
                    .dropout = o.dropout},
          .layers = layers,
          .other_layers = decoder ? o.encoder_layers : o.decoder_layers,
          .recompute_blocks = o.recompute_blocks};
}

/// With it, √C times an embedding has channels of variance 1, and so have the first logits.
double deviation(const EncoderDecoderOptions& o) { return 1 / std::sqrt(static_cast<double>(o.width)); }

}  // namespace

void EncoderDecoderOptions::list(OptionList& o) {
  o.group("Model");
  o("source-vocabulary", source_vocabulary, "number of source tokens").at_least(1);
  o("vocabulary", vocabulary, "number of target tokens").at_least(1);
  o("source-context", source_context, "longest source, in tokens").at_least(1);
  o("context", context, "longest target, in tokens").at_least(1);
  o("width", width, "number of channels").at_least(1);
  o("encoder-layers", encoder_layers, "number of blocks of the encoder").at_least(1);
  o("decoder-layers", decoder_layers, "number of blocks of the decoder").at_least(1);
  o("heads", heads, "number of heads").at_least(1);
  o("hidden", hidden, "size of the feed-forward layers; 0: four times the width").at_least(0);
  o("dropout", dropout, "dropout probability").at_least(0).below(1);
  o("mixer", mixer, "one base and parts, joined by +:\n" + mixer_help());
  o("activation", activation, "activation function of the feed-forward layers");
  o("norm", norm, "kind of norm");
  o("residual", residual, "where the norms are");
  o.flag("no-bias", bias, Bias::no, "linear layers without bias");
  list_checkpoint_blocks(recompute_blocks, o);
}

EncoderDecoder::EncoderDecoder(const EncoderDecoderOptions& o)
    : source_tokens((check_options(o, "EncoderDecoder"), o.source_vocabulary), o.width, deviation(o)),
      tokens(o.vocabulary, o.width, deviation(o)),
      dropout(o.dropout),
      encoder(stack_options(o, false)),
      decoder(stack_options(o, true)),
      options_(o),
      adds_positions_(!brings_positions(mixer_options(o, o.context))) {
  named_parameters();  // sets the parameters' names, for messages and drawings

  // With deepnet the blocks have initial weights of their own.
  if (o.residual != Residual::deepnet) xavier_linear_layers(*this);
}

Tensor EncoderDecoder::embed(const Embedding& table, const Tensor& ids, int64_t past,
                             const Tensor& padding) const {
  const int64_t width = options_.width;
  Tensor x = table.forward(ids) * std::sqrt(static_cast<double>(width));
  if (adds_positions_) x = x + sinusoidal_rows(width, past, ids.size(1), padding, x);
  return dropout.forward(x);
}

Memory EncoderDecoder::encode(const Tensor& source, const Tensor& lengths) const {
  check(source.rank() == 2 && source.size(1) <= options_.source_context,
        "EncoderDecoder: the source is {}, wanted [B, S] with at most {} tokens", source.shape(),
        options_.source_context);
  const ModuleScope scope("encoder");
  return {encoder.forward(embed(source_tokens, source, 0, {}), {.lengths = lengths}), lengths};
}

Tensor EncoderDecoder::features(const Tensor& ids, const StackCall& call) const {
  check(ids.rank() == 2, "EncoderDecoder: the ids are {}, wanted [B, T]", ids.shape());
  check(call.source.defined(), "EncoderDecoder: there is no memory; wanted that of encode(), as the source");
  const int64_t past = call.state ? call.state->length() : 0, time = ids.size(1),
                capacity = call.state ? call.state->capacity() : options_.context;
  check(past + time <= capacity, "EncoderDecoder: {} positions are wanted, the context holds {}", past + time,
        capacity);
  const ModuleScope scope("decoder");
  return decoder.forward(embed(tokens, ids, past, call.padding), call);
}

Tensor EncoderDecoder::logits(const Tensor& features) const {
  const ModuleScope scope("logits");
  return linear(features, tokens.weight);
}

std::unique_ptr<DecodingState> EncoderDecoder::make_state(int64_t batch) const {
  return decoder.make_state(batch, options_.context);
}

EncoderDecoder EncoderDecoder::clone() {
  return clone_into([this] { return EncoderDecoder(options_); });
}

void EncoderDecoder::fields(Fields& f) {
  f("source_tokens", source_tokens);
  f("tokens", tokens);
  f("dropout", dropout);
  f("encoder", encoder);
  f("decoder", decoder);
}

}  // namespace vitrine::nn
