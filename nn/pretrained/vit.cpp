// The vision Transformer (Dosovitskiy et al. 2021) with a layer that classifies images.
#include "nn/pretrained/kinds.h"

namespace vitrine::nn {
namespace {

void vit_config(ConfigFields& f, VisionTransformerOptions& o) {
  BlockOptions& block = o.stack.block;
  f.size("image_size", o.height, 224);
  if (f.reads()) o.width = o.height;
  f.size("patch_size", o.patch, 16);
  f.size("num_channels", o.channels, 3);
  encoder_fields(f, o.stack, 0);
  bool bias = block.mixer.bias.query == Bias::yes;
  f.flag("qkv_bias", bias, true);
  const Bias own = bias ? Bias::yes : Bias::no;
  block.mixer.bias = {own, own, own, Bias::yes};
  block.mixer.context = 1 + (o.height / o.patch) * (o.width / o.patch);
  f.labels(o.classes);
}

// A patch is a square of pixels of all channels, so the kernel of the convolution that cuts patches
// has the numbers of a linear layer, in the same order.
std::vector<WeightRow> vit_weights(const VisionTransformerOptions& o) {
  const BlockOptions& block = o.stack.block;
  const int64_t c = block.mixer.width, hidden = hidden_of(block);
  const std::string embeddings = "vit.embeddings.";
  WeightRows w;
  w.one(embeddings + "cls_token", "token", {1, 1, c});
  w.one(embeddings + "position_embeddings", "positions", {1, block.mixer.context, c});
  w.one(embeddings + "patch_embeddings.projection.weight", "patches.weight",
        {c, o.channels, o.patch, o.patch});
  w.one(embeddings + "patch_embeddings.projection.bias", "patches.bias", {c});
  for (int64_t i = 0; i < o.stack.layers; ++i) {
    const std::string theirs = block_name("vit.encoder.layer.", i), ours = block_name("encoder.blocks.", i);
    const std::string self = theirs + "attention.attention.";
    w.norm(theirs + "layernorm_before", ours + "attention_norm", c);
    w.joined({{self + "query", c}, {self + "key", c}, {self + "value", c}},
             ours + "attention.query_key_value", c, block.mixer.bias.query == Bias::yes);
    w.linear(theirs + "attention.output.dense", ours + "attention.out", c, c);
    w.norm(theirs + "layernorm_after", ours + "feed_forward_norm", c);
    w.linear(theirs + "intermediate.dense", ours + "feed_forward.up", c, hidden);
    w.linear(theirs + "output.dense", ours + "feed_forward.down", hidden, c);
  }
  w.norm("vit.layernorm", "encoder.final_norm", c);
  w.linear("classifier", "head", c, o.classes);
  return w.rows;
}

OptionValues vit_values(const VisionTransformerOptions& o) {
  OptionValues all = stack_values(o.stack);
  const auto add = [&](const char* name, int64_t value) { all.emplace_back(name, std::to_string(value)); };
  add("channels", o.channels), add("height", o.height), add("width of images", o.width);
  add("patch", o.patch), add("classes", o.classes);
  return all;
}

}  // namespace

PretrainedKind<VisionTransformerOptions> vit_kind() {
  return {.type = "vit",
          .prefix = "vit.",
          .heads = {"classifier."},
          .ignored = [](const VisionTransformerOptions&) { return std::vector<std::string>(); },
          .config = vit_config,
          .architecture = [](const VisionTransformerOptions&) { return "ViTForImageClassification"; },
          .layers = [](const VisionTransformerOptions& o) { return o.stack.layers; },
          .weights = vit_weights,
          .values = vit_values};
}

}  // namespace vitrine::nn
