#include "nn/models/word_encoder.h"

namespace vitrine::nn {

void WordEncoderOptions::list(OptionList& o) {
  o.group("Model");
  o("vocabulary", vocabulary, "number of words").at_least(1);
  o("width", width, "number of channels").at_least(1);
  o("heads", heads, "number of heads of an attention").at_least(1);
  o("context", context, "longest text, for attentions that depend on it").at_least(1);
  o("mixer", mixer, "one base and parts, joined by +:\n" + mixer_help());
  o("word-deviation", word_deviation, "standard deviation of the initial word vectors").above(0);
  o("dropout", dropout, "dropout probability of what each layer reads").at_least(0).below(1);
  o("checkpoint-mixers", recompute_mixers, "save memory: run mixers again in the backward pass")
      .decides(Role::execution);
}

std::unique_ptr<Mixer> make_mixer(const WordEncoderOptions& o) {
  return make_mixer(MixerOptions{
      .width = o.width, .heads = o.heads, .context = o.context, .name = o.mixer, .causal = false});
}

Tensor mix(const WordEncoderOptions& o, Mixer& mixer, const Tensor& x, const Tensor& lengths) {
  const auto forward = [&mixer, x, lengths] { return mixer.forward(x, {.lengths = lengths}); };
  return o.recompute_mixers ? recompute(mixer, forward) : forward();
}

WordEncoder::WordEncoder(const WordEncoderOptions& o)
    : words((check_options(o, "WordEncoder"), o.vocabulary), o.width, o.word_deviation),
      dropout(o.dropout),
      mixer(make_mixer(o)),
      options_(o) {}

Tensor WordEncoder::forward(const Tensor& ids, const Tensor& lengths) const {
  check(ids.rank() == 2 && ids.size(1) >= 1, "WordEncoder: the ids are {}, wanted [B, T] with a word",
        ids.shape());
  return mix(options_, *mixer, dropout.forward(words.forward(ids)), lengths);
}

WordEncoder WordEncoder::clone() {
  return clone_into([this] { return WordEncoder(options_); });
}

void WordEncoder::fields(Fields& f) {
  f("words", words);
  f("dropout", dropout);
  f(mixer->kind(), mixer);
}

}  // namespace vitrine::nn
