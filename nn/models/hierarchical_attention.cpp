#include "nn/models/hierarchical_attention.h"

#include "core/creation.h"
#include "nn/attention/parts/laser.h"
#include "nn/layers/zero_padding.h"
#include "ops/view.h"

namespace vitrine::nn {
namespace {

std::shared_ptr<const ReadOut> read_out(const HierarchicalAttentionOptions& o) {
  return o.laser ? std::make_shared<const LaserReadOut>() : nullptr;
}

}  // namespace

void HierarchicalAttentionOptions::list(OptionList& o) {
  words.list(o);
  o("classes", classes, "kinds of documents").at_least(1);
  o("levels", levels, "2: words and sentences; 1: words alone").at_least(1).at_most(2);
  o("laser", laser, "attention reads by LASER in place of the weighted mean");
}

HierarchicalAttention::HierarchicalAttention(const HierarchicalAttentionOptions& o)
    : words((check_options(o, "HierarchicalAttention"), o.words)),
      word_pooling(o.words.width, o.words.width, read_out(o)),
      sentence_mixer(o.levels == 2 ? make_mixer(o.words) : nullptr),
      sentence_pooling(o.levels == 2
                           ? std::make_unique<AttentionPooling>(o.words.width, o.words.width, read_out(o))
                           : nullptr),
      head(o.words.width, o.classes),
      options_(o) {
  named_parameters();  // sets the parameters' names, for messages and drawings
}

HierarchicalAttention::Result HierarchicalAttention::forward(const Tensor& ids, const Tensor& counts,
                                                             const Tensor& sentences) const {
  check(ids.rank() == 3 && ids.size(1) >= 1 && (sentence_mixer || ids.size(1) == 1),
        "HierarchicalAttention: the ids are {}, wanted [B, S, W] with {}", ids.shape(),
        sentence_mixer ? "a sentence" : "one sentence, as there is one level");
  const int64_t batch = ids.size(0), count = ids.size(1), time = ids.size(2);
  check(!counts.defined() || counts.shape() == Shape{batch, count},
        "HierarchicalAttention: the numbers of words are {}, wanted int64 [{}, {}]", describe(counts), batch,
        count);
  check(!sentences.defined() || sentences.shape() == Shape{batch},
        "HierarchicalAttention: the numbers of sentences are {}, wanted int64 [{}]", describe(sentences),
        batch);
  const Tensor lengths = counts.defined() ? reshape(counts, {batch * count}) : Tensor();
  const Tensor h = words.forward(reshape(ids, {batch * count, time}), lengths);
  const auto of_words = word_pooling.attend(h, visible_positions(lengths, time));
  const Tensor weights = reshape(of_words.weights, {batch, count, time});
  const auto logits = [&](const Tensor& y) { return head.forward(words.dropout.forward(y)); };
  if (!sentence_mixer)
    return {logits(of_words.y), weights, full({batch, 1}, 1, weights.dtype(), weights.device())};
  const Tensor s = words.dropout.forward(reshape(of_words.y, {batch, count, h.size(2)}));
  const auto of_sentences = sentence_pooling->attend(mix(options_.words, *sentence_mixer, s, sentences),
                                                     visible_positions(sentences, count));
  return {logits(of_sentences.y), weights, of_sentences.weights};
}

HierarchicalAttention HierarchicalAttention::clone() {
  return clone_into([this] { return HierarchicalAttention(options_); });
}

void HierarchicalAttention::fields(Fields& f) {
  f("words", words);
  f("word_pooling", word_pooling);
  f("sentence_mixer", sentence_mixer);
  f("sentence_pooling", sentence_pooling);
  f("head", head);
}

}  // namespace vitrine::nn
