// BERT (Devlin et al. 2019): learned positions and segments, a norm after each sum, and heads for
// masked tokens and for classes of texts.
#include <algorithm>

#include "nn/pretrained/kinds.h"

namespace vitrine::nn {
namespace {

void bert_config(ConfigFields& f, TextEncoderOptions& o) {
  BlockOptions& block = o.stack.block;
  f.size("vocab_size", o.vocabulary);
  f.size("type_vocab_size", o.segments, 2);
  f.size("max_position_embeddings", block.mixer.context);
  encoder_fields(f, o.stack, 0.1);
  f.labels(o.classes);
  f.only("tie_word_embeddings", true);
  f.only("position_embedding_type", "absolute");
  f.only("is_decoder", false);
  f.only("add_cross_attention", false);
}

/// The tensors of the class layer are called by what it was trained for.
std::string class_layer(const TextEncoderOptions& o) {
  return o.output_transform ? "cls.seq_relationship" : "classifier";
}

/// The file of a model for masked tokens may have the classes of its training, too: whether one
/// sentence follows the other. A head that the architecture has is part of the model, so that its
/// tensors must be there.
void heads_of(const HasTensor& has, const std::string& named, TextEncoderOptions& o) {
  const std::vector<std::string> known = {"", "BertModel", "BertForMaskedLM", "BertForPreTraining",
                                          "BertForSequenceClassification"};
  check(std::find(known.begin(), known.end(), named) != known.end(),
        "config.json: the architecture is {}, wanted BertModel, BertForMaskedLM, BertForPreTraining or "
        "BertForSequenceClassification",
        named);
  const bool of_both = named == "BertForPreTraining";
  o.output_transform = of_both || named == "BertForMaskedLM" || has("cls.predictions.transform.dense.weight");
  if (o.output_transform) o.classes = 2;
  if (!of_both && named != "BertForSequenceClassification" && !has(class_layer(o) + ".weight")) o.classes = 0;
  o.pooler = o.classes > 0 || has("bert.pooler.dense.weight");
}

std::string architecture(const TextEncoderOptions& o) {
  if (o.output_transform) return o.classes > 0 ? "BertForPreTraining" : "BertForMaskedLM";
  return o.classes > 0 ? "BertForSequenceClassification" : "BertModel";
}

std::vector<WeightRow> bert_weights(const TextEncoderOptions& o) {
  const BlockOptions& block = o.stack.block;
  const int64_t c = block.mixer.width, hidden = hidden_of(block);
  const std::string embeddings = "bert.embeddings.";
  WeightRows w;
  w.one(embeddings + "word_embeddings.weight", "tokens.weight", {o.vocabulary, c});
  w.one(embeddings + "token_type_embeddings.weight", "segments.weight", {o.segments, c});
  w.one(embeddings + "position_embeddings.weight", "positions", {block.mixer.context, c});
  w.norm(embeddings + "LayerNorm", "embedding_norm", c);
  for (int64_t i = 0; i < o.stack.layers; ++i) {
    const std::string theirs = block_name("bert.encoder.layer.", i), ours = block_name("encoder.blocks.", i);
    const std::string self = theirs + "attention.self.";
    w.joined({{self + "query", c}, {self + "key", c}, {self + "value", c}},
             ours + "attention.query_key_value", c);
    w.linear(theirs + "attention.output.dense", ours + "attention.out", c, c);
    w.norm(theirs + "attention.output.LayerNorm", ours + "attention_norm", c);
    w.linear(theirs + "intermediate.dense", ours + "feed_forward.up", c, hidden);
    w.linear(theirs + "output.dense", ours + "feed_forward.down", hidden, c);
    w.norm(theirs + "output.LayerNorm", ours + "feed_forward_norm", c);
  }
  if (o.pooler) w.linear("bert.pooler.dense", "pooler", c, c);
  if (o.output_transform) {
    w.linear("cls.predictions.transform.dense", "transform", c, c);
    w.norm("cls.predictions.transform.LayerNorm", "transform_norm", c);
    w.one("cls.predictions.bias", "output_bias", {o.vocabulary});
  }
  if (o.classes > 0) w.linear(class_layer(o), "classes", c, o.classes);
  return w.rows;
}

OptionValues bert_values(const TextEncoderOptions& o) {
  OptionValues all = stack_values(o.stack);
  const auto add = [&](const char* name, const auto& value) {
    all.emplace_back(name, fmt::format("{}", value));
  };
  add("vocabulary", o.vocabulary), add("segments", o.segments), add("classes", o.classes);
  add("positions", name_of(resolved(o.positions, o.stack.block.mixer)));
  add("embedding norm", o.embedding_norm), add("output transform", o.output_transform);
  add("pooler", o.pooler), add("mean pooling", o.mean_pooling), add("prompt", o.prompt);
  return all;
}

}  // namespace

PretrainedKind<TextEncoderOptions> bert_kind() {
  return {
      .type = "bert",
      .prefix = "bert.",
      .heads = {"cls.", "classifier."},
      .ignored = [](const TextEncoderOptions&) -> std::vector<std::string> {
        return {"embeddings.position_ids", "cls.predictions.decoder.weight", "cls.predictions.decoder.bias"};
      },
      .fixed = {.positions = Positions::learned,
                .embedding_norm = true,
                .stack = {.block = {.residual = Residual::post}}},
      .config = bert_config,
      .heads_of = heads_of,
      .architecture = architecture,
      .layers = [](const TextEncoderOptions& o) { return o.stack.layers; },
      .weights = bert_weights,
      .values = bert_values};
}

}  // namespace vitrine::nn
