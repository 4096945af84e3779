#include "nn/models/esim.h"

#include <cmath>

#include "nn/attention/alignment.h"
#include "nn/layers/over_time.h"
#include "nn/layers/zero_padding.h"
#include "ops/activation.h"
#include "ops/elementwise.h"
#include "ops/join.h"

namespace vitrine::nn {

void EsimOptions::list(OptionList& o) {
  words.list(o);
  o("classes", classes, "kinds of pairs").at_least(1);
}

Esim::Esim(const EsimOptions& o)
    : words((check_options(o, "Esim"), o.words)),
      projection(4 * o.words.width, o.words.width, Bias::yes,
                 1 / std::sqrt(4.0 * static_cast<double>(o.words.width))),
      composition(make_mixer(o.words)),
      hidden(4 * o.words.width, o.words.width, Bias::yes,
             1 / std::sqrt(4.0 * static_cast<double>(o.words.width))),
      head(o.words.width, o.classes),
      options_(o) {
  named_parameters();  // sets the parameters' names, for messages and drawings
}

Esim::Result Esim::forward(const Tensor& a, const Tensor& b, const Tensor& a_lengths,
                           const Tensor& b_lengths) const {
  const Alignment aligned =
      soft_alignment(words.forward(a, a_lengths), words.forward(b, b_lengths),
                     visible_positions(a_lengths, a.size(1)), visible_positions(b_lengths, b.size(1)));
  const Tensor both = concat({summary(aligned.a, a_lengths), summary(aligned.b, b_lengths)}, -1);
  const Tensor logits =
      head.forward(words.dropout.forward(tanh(hidden.forward(words.dropout.forward(both)))));
  return {logits, aligned.a_weights, aligned.b_weights};
}

/// The mean and the maximum of the composed words, [B, 2·C].
Tensor Esim::summary(const Tensor& aligned, const Tensor& lengths) const {
  const Tensor x = words.dropout.forward(relu(projection.forward(aligned)));
  const Tensor h = mix(options_.words, *composition, x, lengths);
  return concat({mean_over_time(h, lengths), max_over_time(h, lengths)}, -1);
}

Esim Esim::clone() {
  return clone_into([this] { return Esim(options_); });
}

void Esim::fields(Fields& f) {
  f("words", words);
  f("projection", projection);
  f("composition", composition);
  f("hidden", hidden);
  f("head", head);
}

}  // namespace vitrine::nn
