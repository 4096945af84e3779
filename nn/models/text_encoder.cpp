#include "nn/models/text_encoder.h"

#include "core/creation.h"
#include "core/record.h"
#include "nn/init.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"

namespace vitrine::nn {
namespace {

constexpr double kDeviation = 0.02;  // of the initial weights of BERT

const MixerOptions& sizes(const TextEncoderOptions& o) { return o.stack.block.mixer; }

void validate(const TextEncoderOptions& o) {
  check(o.vocabulary >= 1 && o.segments >= 0,
        "TextEncoder: the vocabulary is {} and there are {} segments, wanted at least 1 and 0", o.vocabulary,
        o.segments);
  check(sizes(o).context >= 1, "TextEncoder: the context is {}, wanted at least 1", sizes(o).context);
}

}  // namespace

TextEncoder::TextEncoder(const TextEncoderOptions& o)
    : tokens((validate(o), o.vocabulary), sizes(o).width, kDeviation),
      segments(o.segments > 0 ? std::make_unique<Embedding>(o.segments, sizes(o).width, kDeviation)
                              : nullptr),
      positions(resolved(o.positions, sizes(o)) == Positions::learned
                    ? normal({sizes(o).context, sizes(o).width}, kDeviation)
                    : Parameter()),
      dropout(o.stack.block.dropout),
      encoder(o.stack),
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
    if (options_.positions == Positions::learned) x = x + rows_at(positions, 0, time, {});
    if (options_.positions == Positions::sinusoidal)
      x = x + sinusoidal_rows(sizes(options_).width, 0, time, {}, x);
    if (segments) x = x + segments->forward(kinds.defined() ? kinds : zeros_like(ids));
    x = dropout.forward(x);
  }
  return encoder.forward(x, call);
}

Tensor TextEncoder::logits(const Tensor& features) const {
  const ModuleScope scope("logits");
  return linear(features, tokens.weight);
}

TextEncoder TextEncoder::clone() {
  return clone_into([this] { return TextEncoder(options_); });
}

void TextEncoder::fields(Fields& f) {
  f("tokens", tokens);
  f("segments", segments);
  f("positions", positions);
  f("dropout", dropout);
  f("encoder", encoder);
}

}  // namespace vitrine::nn
