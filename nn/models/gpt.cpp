#include "nn/models/gpt.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/creation.h"
#include "core/memory/machine.h"
#include "core/record.h"
#include "nn/init.h"
#include "nn/layers/heads.h"
#include "nn/models/deviation.h"
#include "nn/models/stack_settings.h"
#include "nn/transformer/mixers.h"
#include "nn/transformer/position_rows.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "ops/view.h"

namespace vitrine::nn {
namespace {

double out_deviation(const GptOptions& o) { return residual_deviation(kDeviation, o.layers); }

MixerOptions mixer_options(const GptOptions& o) {
  return {.width = o.width,
          .heads = o.heads,
          .key_heads = o.key_heads,
          .context = o.context,
          .name = o.mixer,
          .bias = o.bias,
          .out_deviation = out_deviation(o)};
}

StackOptions stack_options(const GptOptions& o) {
  return {.block = {.mixer = mixer_options(o),
                    .hidden = o.hidden,
                    .activation = o.activation,
                    .feed_forward = o.feed_forward,
                    .experts = o.experts,
                    .norm = o.norm,
                    .norm_epsilon = o.norm_epsilon,
                    .residual = o.residual,
                    .bias = o.bias,
                    .dropout = o.dropout,
                    .drop_path = o.drop_path},
          .layers = o.layers,
          .recompute_blocks = o.recompute_blocks,
          .reversible = o.reversible,
          .universal = o.universal,
          .halting = o.halting,
          .ponder = o.ponder};
}

Positions resolved(const GptOptions& o) {
  if (o.universal && o.positions == Positions::automatic) return Positions::none;
  return nn::resolved(o.positions, mixer_options(o));
}

/// The blocks with parameters of their own.
int64_t own_blocks(const GptOptions& o) { return o.universal ? 1 : o.layers; }

/// Each step of a universal stack adds sinusoids to its input. Next to them, embeddings of
/// N(0, 0.02²) would be lost, so they are multiplied by √C and start as N(0, 1/C).
double embedding_deviation(const GptOptions& o) {
  return o.universal ? 1 / std::sqrt(static_cast<double>(o.width)) : kDeviation;
}

}  // namespace

void GptOptions::list(OptionList& o) {
  o.group("Model");
  o("vocabulary", vocabulary, "number of tokens").at_least(1);
  o("mixer", mixer, "one base and parts, joined by +:\n" + mixer_help()).also("attention");
  o("layers", layers, "number of blocks").at_least(1);
  o("heads", heads, "number of query heads").at_least(1);
  o("key-heads", key_heads, "number of key heads; 0: same as query heads").at_least(0);
  o("width", width, "number of channels").at_least(1);
  o("context", context, "longest sequence, in tokens").at_least(1);
  o("hidden", hidden, "size of the feed-forward layer; 0: four times the width").at_least(0);
  o("feed-forward", feed_forward, "feed-forward part: dense, or the channel mixing of an RWKV");
  o("activation", activation, "activation function of the feed-forward layer").unless([this] {
    return feed_forward == FeedForwardKind::dense ? ""
                                                  : "the feed-forward part is a channel mixing, with relu²";
  });
  o("norm", norm, "kind of norm");
  o("norm-epsilon", norm_epsilon,
    "what the norm adds to the variance, or to the mean square; the norm scale adds nothing")
      .at_least(0);
  o("residual", residual,
    "norms before each part (pre), or after each sum: x, a multiple of x (deepnet), or "
    "learned multiples of x (admin), plus the part");
  o.flag("no-bias", bias, Bias::no, "linear layers without bias");
  o.flag("untied", tied, false, "the output layer does not share the weights of the token embedding");
  o("output-mixtures", output_mixtures,
    "the output is a mixture of so many softmaxes, which LASER reads; 0: a linear layer and one softmax")
      .at_least(0);
  o("dropout", dropout, "dropout probability").at_least(0).below(1);
  o("drop-path", drop_path,
    "probability that a part of the last block is dropped for a whole sequence; "
    "earlier blocks have proportionally less")
      .at_least(0)
      .below(1);
  const auto no_experts = [this] { return experts.count > 0 ? "" : "the feed-forward part is dense"; };
  o("experts", experts.count, "experts of the feed-forward part; 0: one dense part").at_least(0);
  o("experts-per-token", experts.per_token, "experts that each token takes").at_least(1).unless(no_experts);
  o("capacity-factor", experts.capacity_factor,
    "places of each expert in training, in units of its mean load; 0: no limit")
      .at_least(0)
      .unless(no_experts);
  o("balance-loss", experts.balance, "factor of the loss that balances the experts")
      .at_least(0)
      .unless(no_experts);
  o("z-loss", experts.z, "factor of the loss that keeps the logits of the router small")
      .at_least(0)
      .unless(no_experts);
  o("positions", positions, "position embedding");
  o("reversible", reversible,
    "save memory: blocks change two streams in turn, which the backward pass computes again from the result");
  o("universal", universal,
    "a universal Transformer: one block, which each position takes up to --layers times, until it halts");
  const auto not_universal = [this] { return universal ? "" : "each block is taken once"; };
  o("halting", halting, "how a position halts and what it returns").unless(not_universal);
  o("ponder", ponder, "factor of the loss that makes positions halt early").at_least(0).unless(not_universal);
  list_checkpoint_blocks(recompute_blocks, o);
}

void GptOptions::validate() const {
  check_options(*this, "Gpt");
  check_heads("Gpt", width, heads, key_heads);
  parse_mixer(mixer);
  stack_options(*this).validate();
  check(experts.count == 0 || experts.per_token <= experts.count,
        "Gpt: each token takes {} experts, and there are {}", experts.per_token, experts.count);
  check(positions != Positions::sinusoidal || width % 2 == 0,
        "Gpt: the width {} is odd, and sinusoidal positions come in pairs of channels", width);
  const auto w = static_cast<double>(width), rows = static_cast<double>(vocabulary),
             places = resolved(*this) == Positions::learned ? static_cast<double>(context) : 0,
             inside = hidden > 0 ? static_cast<double>(hidden) : 4 * w;
  // The query and output projections, and two feed-forward layers; key heads may be few.
  const double output = static_cast<double>(output_mixtures) * w * w;
  const double block = 2 * w * w + 2 * w * inside * static_cast<double>(std::max<int64_t>(1, experts.count));
  check_memory(4 * (w * (rows + places) + output + block * static_cast<double>(own_blocks(*this))),
               fmt::format("Gpt: vocabulary {}, context {}, width {}, hidden {} and layers {}{}", vocabulary,
                           context, width, hidden, layers,
                           output_mixtures > 0 ? fmt::format(", and {} softmaxes", output_mixtures) : ""));
}

Gpt::Gpt(const GptOptions& options)
    : tokens((options.validate(), options.vocabulary), options.width, embedding_deviation(options)),
      positions(resolved(options) == Positions::learned ? normal({options.context, options.width}, kDeviation)
                                                        : Parameter()),
      dropout(options.dropout),
      decoder(stack_options(options)),
      options_(options) {
  options_.positions = resolved(options);
  if (options.output_mixtures > 0) {
    mixture =
        std::make_unique<MixtureOfSoftmaxes>(options.width, options.vocabulary, options.output_mixtures);
    if (options.tied) mixture->out.weight = tokens.weight;
  } else if (!options.tied) {
    head = std::make_unique<Linear>(options.width, options.vocabulary, Bias::no, kDeviation);
  }
  named_parameters();  // sets the parameters' names, for messages and drawings
}

Tensor Gpt::features(const Tensor& ids, const StackCall& call) const {
  check(ids.rank() == 2, "Gpt: the ids are {}, wanted [B, T]", ids.shape());
  const int64_t past = call.state ? call.state->length() : 0, time = ids.size(1),
                capacity = call.state ? call.state->capacity() : options_.context;
  check(past + time <= capacity, "Gpt: {} positions are wanted, the context holds {}", past + time, capacity);
  Tensor x;
  {
    const ModuleScope scope("tokens");
    x = tokens.forward(ids);
    if (options_.universal) x = x * std::sqrt(static_cast<double>(options_.width));
    if (options_.positions != Positions::none) x = x + position_rows(past, time, call.padding, x);
    x = dropout.forward(x);
  }
  return decoder.forward(x, call);
}

Tensor Gpt::logits(const Tensor& features) const {
  const ModuleScope scope("logits");
  if (mixture) return mixture->forward(features);
  return head ? head->forward(features) : linear(features, tokens.weight);
}

int64_t Gpt::values_per_token() const {
  const int64_t width = options_.width, hidden = options_.hidden ? options_.hidden : 4 * width;
  // A mixture keeps the logits and the log-probabilities of each softmax.
  const int64_t output = options_.vocabulary * (1 + 2 * options_.output_mixtures);
  if (options_.reversible) return output;
  const int64_t block = options_.recompute_blocks ? width : 4 * width + hidden;
  return output + own_blocks(options_) * block;
}

std::unique_ptr<DecodingState> Gpt::make_state(int64_t batch) const {
  auto state = decoder.make_state(batch, options_.context);
  if (options_.positions == Positions::learned) state->limit = options_.context;
  return state;
}

Gpt Gpt::clone() {
  return clone_into([this] { return Gpt(options_); });
}

Tensor Gpt::position_rows(int64_t past, int64_t time, const Tensor& padding, const Tensor& like) const {
  if (options_.positions == Positions::learned) return rows_at(positions, past, time, padding);
  return sinusoidal_rows(options_.width, past, time, padding, like);
}

void Gpt::fields(Fields& f) {
  f("tokens", tokens);
  f("positions", positions);
  f("dropout", dropout);
  decoder.fields(f);
  f("head", head);
  f("mixture", mixture);
}

}  // namespace vitrine::nn
