#include "core/creation.h"
#include "nn/attention/positions.h"
#include "nn/models/gpt.h"
#include "ops/activation.h"
#include "ops/attention.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/join.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "tests/nn/cs336/adapters.h"

namespace vitrine::test::cs336 {

Tensor norm(Case c, const Tensor& x, const std::string& name) {
  return rms_norm(x, c.weight(name), c.number({"eps", "epsilon"}, 1e-5));
}

Tensor feed_forward(Case c, const Tensor& x, const std::string& prefix) {
  const Tensor up = linear(x, c.weight(prefix + "w1.weight"));
  const bool gated = c.has_weight(prefix + "w3.weight");
  const Tensor inner = gated ? silu(up) * linear(x, c.weight(prefix + "w3.weight")) : gelu(up);
  return linear(inner, c.weight(prefix + "w2.weight"));
}

namespace {

/// Whether true in a mask means visible.
bool true_takes_part(Case c) {
  const std::string mask = c.settings.value("mask", std::string());
  if (!mask.empty()) return mask != "hidden";
  return c.about.find("left out") == std::string::npos;
}

/// [.., T, D] as [B, 1, T, D], and with an axis of heads, [.., H, T, D], as [B, H, T, D].
Tensor four_axes(const Tensor& x) {
  const int64_t heads = x.rank() >= 4 ? x.size(-3) : 1;
  return reshape(x, {-1, heads, x.size(-2), x.size(-1)});
}

}  // namespace

Tensor sdpa(Case c) {
  const Tensor q = c.given({"query", "q", "Q"}), k = c.given({"key", "k", "K"}),
               v = c.given({"value", "v", "V"});
  AttentionOptions options;
  options.causal = c.settings.value("causal", false);
  if (c.has({"mask"})) {
    const Tensor mask = c.given({"mask"});
    options.allowed = true_takes_part(c) ? mask : logical_not(mask);
    if (mask.rank() > 2) options.allowed = four_axes(options.allowed);
  }
  Shape shape = q.shape();
  shape.back() = v.size(-1);
  return reshape(attention(four_axes(q), four_axes(k), four_axes(v), options), shape);
}

namespace {

nn::RotaryOptions rotary(Case c) {
  nn::RotaryOptions o;
  o.base = c.number({"theta", "rope_theta"}, o.base);
  o.interleaved = true;
  return o;
}

}  // namespace

Tensor rope(Case c, const Tensor& x) {
  if (!c.has({"token_positions", "positions"})) return nn::rotate(x, 0, rotary(c));
  Tensor positions = copy_as(c.given({"token_positions", "positions"}), DType::int64);
  if (positions.rank() > 1) {  // one row for each sequence, all the same
    const Tensor first = select(reshape(positions, {-1, positions.size(-1)}), 0, 0);
    check(all(equal(positions, first)).item() != 0, "the sequences have different positions");
    positions = contiguous(first);
  }
  return nn::rotate(x, positions, rotary(c));
}

namespace {

/// The weight of a projection: for all heads at once, or concatenated from "q_heads.0.weight", …
Tensor projection(Case c, const std::string& prefix, const char* part) {
  const std::string whole = fmt::format("{}{}_proj.weight", prefix, part);
  if (c.has_weight(whole)) return c.weight(whole);
  std::vector<Tensor> rows;
  for (int head = 0;; ++head) {
    const std::string name = fmt::format("{}{}_heads.{}.weight", prefix, part, head);
    if (!c.has_weight(name)) break;
    rows.push_back(c.weight(name));
  }
  check(!rows.empty(), "the case has no weight {}", whole);
  return concat(rows, 0);
}

int64_t heads_of(Case c, const std::string& prefix) {
  int64_t heads = 0;
  while (c.has_weight(fmt::format("{}q_heads.{}.weight", prefix, heads))) ++heads;
  return heads > 0 ? heads : static_cast<int64_t>(c.number({"num_heads", "n_heads", "heads", "head"}));
}

bool turns(Case c) {
  const auto said = [&](const char* word) {
    return c.name.find(word) != std::string::npos || c.computes.find(word) != std::string::npos;
  };
  return c.find_number({"theta", "rope_theta"}) || c.has({"token_positions", "positions"}) || said("rope");
}

}  // namespace

Tensor self_attention(Case c, const Tensor& x, const std::string& prefix) {
  const int64_t heads = heads_of(c, prefix), size = x.size(-2);
  const auto project = [&](const char* part) {
    const Tensor y = linear(x, projection(c, prefix, part));
    return transpose(reshape(y, {-1, size, heads, y.size(-1) / heads}), 1, 2);
  };
  const auto place = [&](const Tensor& y) { return turns(c) ? rope(c, y) : y; };
  AttentionOptions options;
  options.causal = true;
  const Tensor y = attention(place(project("q")), place(project("k")), project("v"), options);
  const std::string out =
      prefix + (c.has_weight(prefix + "o_proj.weight") ? "o_proj" : "output_proj") + ".weight";
  Shape merged = x.shape();
  merged.back() = y.size(1) * y.size(3);
  return linear(reshape(transpose(y, 1, 2), merged), c.weight(out));
}

Tensor block(Case c, const Tensor& x, const std::string& prefix) {
  const Tensor y = x + self_attention(c, norm(c, x, prefix + "ln1.weight"), prefix + "attn.");
  return y + feed_forward(c, norm(c, y, prefix + "ln2.weight"), prefix + "ffn.");
}

namespace {

std::string layer(int64_t i) { return fmt::format("layers.{}.", i); }

int64_t layers_of(Case c) {
  int64_t layers = 0;
  while (c.has_weight(layer(layers) + "ln1.weight")) ++layers;
  return layers;
}

/// Reorders the rows of each head's projection. CS336 rotates channels 2i and 2i + 1 together, the
/// module channels i and i + D/2. The scores do not change.
Tensor halves(const Tensor& w, int64_t heads) {
  const int64_t pairs = w.size(0) / heads / 2;
  return reshape(transpose(reshape(w, {heads, pairs, 2, -1}), 1, 2), w.shape());
}

/// The module Gpt with the weights of the case.
Tensor logits_of_module(Case c, const Tensor& ids) {
  const Tensor table = c.weight("token_embeddings.weight");
  const bool learned = c.has_weight("position_embeddings.weight"),
             gated = c.has_weight(layer(0) + "ffn.w3.weight");
  nn::GptOptions o;
  o.vocabulary = table.size(0), o.width = table.size(1), o.layers = layers_of(c);
  o.heads = heads_of(c, layer(0) + "attn."), o.hidden = c.weight(layer(0) + "ffn.w1.weight").size(0);
  o.context = learned ? c.weight("position_embeddings.weight").size(0) : ids.size(-1);
  o.mixer = learned ? "standard" : "rotary";
  o.activation = gated ? nn::Activation::swiglu : nn::Activation::gelu;
  o.norm = nn::NormKind::rms, o.bias = nn::Bias::no;
  nn::Gpt gpt(o);
  gpt.tokens.weight = Parameter(table);
  if (learned) gpt.positions = Parameter(c.weight("position_embeddings.weight"));
  for (int64_t i = 0; i < o.layers; ++i) {
    const std::string attn = layer(i) + "attn.", ffn = layer(i) + "ffn.";
    const auto turned = [&](const char* part) {
      const Tensor w = projection(c, attn, part);
      return learned ? w : halves(w, o.heads);
    };
    nn::TransformerBlock& b = *gpt.decoder.blocks[static_cast<size_t>(i)];
    auto& attention = dynamic_cast<nn::MultiHeadAttention&>(*b.mixer);
    attention.query_key_value.weight =
        Parameter(concat({turned("q"), turned("k"), projection(c, attn, "v")}, 0));
    attention.out.weight = Parameter(c.weight(attn + "output_proj.weight"));
    const Tensor up = c.weight(ffn + "w1.weight");
    b.feed_forward->up.weight = Parameter(gated ? concat({up, c.weight(ffn + "w3.weight")}, 0) : up);
    b.feed_forward->down.weight = Parameter(c.weight(ffn + "w2.weight"));
    b.mixer_norm.weight = Parameter(c.weight(layer(i) + "ln1.weight"));
    b.feed_forward_norm.weight = Parameter(c.weight(layer(i) + "ln2.weight"));
  }
  gpt.decoder.final_norm.weight = Parameter(c.weight("ln_final.weight"));
  return linear(gpt.features(reshape(ids, {-1, ids.size(-1)})), c.weight("lm_head.weight"));
}

}  // namespace

Results language_model(Case c) {
  const Tensor ids = c.given({"input", "in_indices", "token_ids", "ids"});
  check(layers_of(c) > 0, "the case has no weight layers.0.ln1.weight");
  Tensor x = embedding(c.weight("token_embeddings.weight"), ids);
  const bool learned = c.has_weight("position_embeddings.weight");
  if (learned) x = x + slice(c.weight("position_embeddings.weight"), 0, 0, ids.size(-1));
  for (int64_t i = 0; i < layers_of(c); ++i) x = block(c, x, layer(i));
  Results results = {{"expected", linear(norm(c, x, "ln_final.weight"), c.weight("lm_head.weight"))}};
  const bool usual = c.number({"eps", "epsilon"}, 1e-5) == 1e-5 && !c.has({"token_positions", "positions"});
  if (usual && (learned || (turns(c) && rotary(c).base == 10000)) &&
      c.has_weight("layers.0.attn.output_proj.weight"))
    results.push_back({"expected", reshape(logits_of_module(c, ids), results[0].second.shape())});
  return results;
}

}  // namespace vitrine::test::cs336
