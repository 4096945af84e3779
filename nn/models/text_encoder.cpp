#include "nn/models/text_encoder.h"
#include "nn/models/deviation.h"

#include "core/creation.h"
#include "core/record.h"
#include "nn/init.h"
#include "nn/layers/over_time.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "ops/view.h"

namespace vitrine::nn {
namespace {

const MixerOptions& sizes(const TextEncoderOptions& o) { return o.stack.block.mixer; }

void validate(const TextEncoderOptions& o) {
  check(o.vocabulary >= 1 && o.segments >= 0,
        "TextEncoder: the vocabulary is {} and there are {} segments, wanted at least 1 and 0", o.vocabulary,
        o.segments);
  check(sizes(o).context >= 1, "TextEncoder: the context is {}, wanted at least 1", sizes(o).context);
  check(o.prompt >= 0, "TextEncoder: the prompt has {} vectors, wanted at least 0", o.prompt);
  check(o.classes >= 0 && (o.classes == 0 || o.pooler),
        "TextEncoder: there are {} classes, wanted 0, or at least 1 with a pooler", o.classes);
  check(!o.mean_pooling || o.pooler, "TextEncoder: there is mean pooling without a pooler");
  check(!o.output_transform || inputs_per_output(o.stack.block.activation) == 1,
        "TextEncoder: the output transform has the activation {}, wanted one without a gate",
        name_of(o.stack.block.activation));
}

std::unique_ptr<Norm> make_norm(bool wanted, const BlockOptions& o) {
  return wanted ? std::make_unique<Norm>(o.mixer.width, o.norm, o.norm_epsilon) : nullptr;
}

std::unique_ptr<Linear> make_linear(bool wanted, int64_t in, int64_t out) {
  return wanted ? std::make_unique<Linear>(in, out, Bias::yes, kDeviation) : nullptr;
}

}  // namespace

TextEncoder::TextEncoder(const TextEncoderOptions& o)
    : tokens((validate(o), o.vocabulary), sizes(o).width, kDeviation),
      segments(o.segments > 0 ? std::make_unique<Embedding>(o.segments, sizes(o).width, kDeviation)
                              : nullptr),
      positions(resolved(o.positions, sizes(o)) == Positions::learned
                    ? normal({sizes(o).context, sizes(o).width}, kDeviation)
                    : Parameter()),
      embedding_norm(make_norm(o.embedding_norm, o.stack.block)),
      dropout(o.stack.block.dropout),
      prompt(o.prompt > 0 ? std::make_unique<MemoryTokens>(o.prompt, sizes(o).width) : nullptr),
      encoder(o.stack),
      transform(make_linear(o.output_transform, sizes(o).width, sizes(o).width)),
      transform_norm(make_norm(o.output_transform, o.stack.block)),
      output_bias(o.output_transform ? constant({o.vocabulary}, 0) : Parameter()),
      pooler(make_linear(o.pooler, sizes(o).width, sizes(o).width)),
      classes(make_linear(o.classes > 0, sizes(o).width, o.classes)),
      options_(o) {
  options_.positions = resolved(o.positions, sizes(o));
  named_parameters();  // sets the parameters' names, for messages and drawings
}

Tensor TextEncoder::features(const Tensor& ids, const StackCall& call, const Tensor& kinds) const {
  check(ids.rank() == 2 && ids.size(1) <= sizes(options_).context,
        "TextEncoder: the ids are {}, wanted [B, T] with at most {} tokens", ids.shape(),
        sizes(options_).context);
  check(segments || !kinds.defined(), "TextEncoder: there are no segments");
  if (kinds.defined())
    check(kinds.shape() == ids.shape(), "TextEncoder: the segments are {}, wanted {}", kinds.shape(),
          ids.shape());
  const int64_t time = ids.size(1);
  Tensor x;
  {
    const ModuleScope scope("tokens");
    x = tokens.forward(ids);
    if (options_.positions == Positions::learned) x = x + rows_at(positions, 0, time, call.padding);
    if (options_.positions == Positions::sinusoidal)
      x = x + sinusoidal_rows(sizes(options_).width, 0, time, call.padding, x);
    if (segments) x = x + segments->forward(kinds.defined() ? kinds : zeros_like(ids));
    if (embedding_norm) x = embedding_norm->forward(x);
    x = dropout.forward(x);
  }
  if (!prompt) return encoder.forward(x, call);
  check(!call.padding.defined(), "TextEncoder: a prompt and padding before the text exclude each other");
  StackCall longer = call;
  longer.mask = prompt->before(call.mask, time);
  if (call.lengths.defined()) longer.lengths = prompt->lengths(call.lengths);
  return prompt->rest(encoder.forward(prompt->before(x), longer));
}

Tensor TextEncoder::logits(const Tensor& features) const {
  const ModuleScope scope("logits");
  if (!transform) return linear(features, tokens.weight);
  const Tensor h = activate(options_.stack.block.activation, transform->forward(features));
  return linear(transform_norm->forward(h), tokens.weight, output_bias);
}

Tensor TextEncoder::pooled(const Tensor& features, const Tensor& lengths) const {
  check(pooler != nullptr, "TextEncoder: there is no pooler; options.pooler makes one");
  const ModuleScope scope("pooler");
  return tanh(
      pooler->forward(options_.mean_pooling ? mean_over_time(features, lengths) : select(features, 1, 0)));
}

Tensor TextEncoder::classify(const Tensor& features, const Tensor& lengths) const {
  check(classes != nullptr, "TextEncoder: there are no classes; options.classes is their number");
  const Tensor feature = dropout.forward(pooled(features, lengths));
  const ModuleScope scope("classes");
  return classes->forward(feature);
}

TextEncoder TextEncoder::clone() {
  return clone_into([this] { return TextEncoder(options_); });
}

void TextEncoder::fields(Fields& f) {
  f("tokens", tokens);
  f("segments", segments);
  f("positions", positions);
  f("embedding_norm", embedding_norm);
  f("dropout", dropout);
  f("prompt", prompt);
  f("encoder", encoder);
  f("transform", transform);
  f("transform_norm", transform_norm);
  f("output_bias", output_bias);
  f("pooler", pooler);
  f("classes", classes);
}

}  // namespace vitrine::nn
