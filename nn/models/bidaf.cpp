#include "nn/models/bidaf.h"

#include <cmath>

#include "nn/layers/zero_padding.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/view.h"

namespace vitrine::nn {

void BiDafOptions::list(OptionList& o) {
  words.list(o);
  o("layers", layers, "mixers of the modelling layer").at_least(1);
}

BiDaf::BiDaf(const BiDafOptions& o)
    : words((check_options(o, "BiDaf"), o.words)),
      flow(o.words.width),
      projection(4 * o.words.width, o.words.width, Bias::yes,
                 1 / std::sqrt(4.0 * static_cast<double>(o.words.width))),
      end_mixer(make_mixer(o.words)),
      first(5 * o.words.width, 1),
      last(5 * o.words.width, 1),
      options_(o) {
  for (int64_t i = 0; i < o.layers; ++i) modelling.push_back(make_mixer(o.words));
  named_parameters();  // sets the parameters' names, for messages and drawings
}

BiDaf::Result BiDaf::forward(const Tensor& context, const Tensor& question, const Tensor& lengths,
                             const Tensor& question_lengths) const {
  const Tensor h = words.forward(context, lengths), u = words.forward(question, question_lengths);
  const Tensor visible = visible_positions(lengths, context.size(1));
  const AttentionFlow::Result read =
      flow.attend(h, u, visible, visible_positions(question_lengths, question.size(1)));
  const auto next = [&](Mixer& mixer, const Tensor& x) {
    return mix(options_.words, mixer, words.dropout.forward(x), lengths);
  };
  const auto pointer = [&](const Linear& scores, const Tensor& m) {
    const Tensor logits = squeeze(scores.forward(words.dropout.forward(concat({read.y, m}, -1))), {-1});
    return visible.defined() ? where(visible, logits, -INFINITY) : logits;
  };
  Tensor m = projection.forward(words.dropout.forward(read.y));
  for (const auto& mixer : modelling) m = next(*mixer, m);
  return {pointer(first, m), pointer(last, next(*end_mixer, m)), read.query_weights, read.context_weights};
}

BiDaf BiDaf::clone() {
  return clone_into([this] { return BiDaf(options_); });
}

void BiDaf::fields(Fields& f) {
  f("words", words);
  f("flow", flow);
  f("projection", projection);
  f("modelling", modelling);
  f("end_mixer", end_mixer);
  f("first", first);
  f("last", last);
}

}  // namespace vitrine::nn
