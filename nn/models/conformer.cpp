#include "nn/models/conformer.h"

#include "core/creation.h"
#include "core/record.h"
#include "nn/layers/zero_padding.h"
#include "nn/models/deviation.h"
#include "ops/activation.h"
#include "ops/elementwise.h"
#include "ops/view.h"

namespace vitrine::nn {
namespace {

// x[2t − 1], x[2t] and x[2t + 1] become y[t], so that T frames become ⌈T/2⌉.
const Conv1dOptions kHalving = {.stride = 2, .padding = 1};

int64_t width(const ConformerOptions& o) { return o.mixer.width; }
int64_t hidden(const ConformerOptions& o) { return o.hidden > 0 ? o.hidden : 4 * o.mixer.width; }

MixerOptions both_directions(MixerOptions mixer) {
  mixer.causal = false;
  return mixer;
}

Tensor halved(const Tensor& lengths) {  // rounded up
  return lengths.defined() ? cast(cast(lengths + 1, DType::float64) * 0.5, DType::int64) : lengths;
}

/// x [B, T, in] → [B, ⌈T/2⌉, out].
Tensor halve_time(const Conv1d& layer, const Tensor& x, const Tensor& lengths) {
  return silu(transpose(layer.forward(transpose(zero_padding(x, lengths)))));
}

}  // namespace

ConformerBlock::ConformerBlock(const ConformerOptions& o)
    : first_norm(width(o)),
      first(width(o), hidden(o), Activation::silu, Bias::yes, kDeviation),
      mixer_norm(width(o)),
      mixer(make_mixer(both_directions(o.mixer))),
      convolution(width(o), o.kernel),
      second_norm(width(o)),
      second(width(o), hidden(o), Activation::silu, Bias::yes, kDeviation),
      final_norm(width(o)),
      dropout(o.dropout),
      options_(o) {}

Tensor ConformerBlock::forward(const Tensor& x, const Tensor& lengths) const {
  Tensor h = x + dropout.forward(first.forward(first_norm.forward(x))) * 0.5;
  h = h + dropout.forward(mixer->forward(mixer_norm.forward(h), {.lengths = lengths}));
  h = h + dropout.forward(convolution.forward(h, lengths));
  h = h + dropout.forward(second.forward(second_norm.forward(h))) * 0.5;
  return final_norm.forward(h);
}

void ConformerBlock::fields(Fields& f) {
  f("first_norm", first_norm);
  f("first", first);
  f("mixer_norm", mixer_norm);
  f(mixer->kind(), *mixer);
  f("convolution", convolution);
  f("second_norm", second_norm);
  f("second", second);
  f("final_norm", final_norm);
  f("dropout", dropout);
}

ConformerBlock ConformerBlock::clone() {
  return clone_into([this] { return ConformerBlock(options_); });
}

Conformer::Conformer(const ConformerOptions& o)
    : halve(o.features, width(o), 3, kHalving),
      halve_again(width(o), width(o), 3, kHalving),
      dropout(o.dropout),
      head(width(o), o.classes, Bias::yes, kDeviation),
      options_(o) {
  check(o.layers >= 1 && o.classes >= 2, "Conformer: {} layers and {} classes, wanted at least 1 and 2",
        o.layers, o.classes);
  for (int64_t i = 0; i < o.layers; ++i) {
    ConformerOptions block = o;
    block.mixer.layer = i + 1;
    blocks.push_back(std::make_unique<ConformerBlock>(block));
  }
  named_parameters();  // sets the parameters' names, for messages and drawings
}

Conformer::Result Conformer::forward(const Tensor& frames, const Tensor& lengths) const {
  check(frames.rank() == 3 && frames.size(2) == options_.features,
        "Conformer: the frames are {}, wanted [B, T, {}]", frames.shape(), options_.features);
  const Tensor half = halved(lengths), quarter = halved(half);
  Tensor x = halve_time(halve, cast(frames, halve.weight.dtype()), lengths);
  x = dropout.forward(halve_time(halve_again, x, half));
  for (size_t i = 0; i < blocks.size(); ++i) {
    const ModuleScope scope("blocks." + std::to_string(i));
    ConformerBlock& block = *blocks[i];
    const auto forward = [&block, x, quarter] { return block.forward(x, quarter); };
    x = options_.recompute_blocks ? recompute(block, forward) : forward();
  }
  const Tensor whole = full({x.size(0)}, static_cast<double>(x.size(1)), DType::int64, x.device());
  return {head.forward(x), quarter.defined() ? quarter : whole};
}

void Conformer::fields(Fields& f) {
  f("halve", halve);
  f("halve_again", halve_again);
  f("dropout", dropout);
  f("blocks", blocks);
  f("head", head);
}

Conformer Conformer::clone() {
  return clone_into([this] { return Conformer(options_); });
}

}  // namespace vitrine::nn
