// GPT-2 (Radford et al. 2019): learned positions, layer norms before each part, biases, GELU.
#include "nn/pretrained/kinds.h"

namespace vitrine::nn {
namespace {

void gpt2_config(ConfigFields& f, GptOptions& o) {
  f.size("vocab_size", o.vocabulary);
  f.size("n_positions", o.context);
  f.size("n_embd", o.width);
  f.size("n_layer", o.layers);
  f.size("n_head", o.heads);
  f.size("n_inner", o.hidden, 4 * o.width);
  f.choice("activation_function", o.activation, pretrained_activations(), "gelu_new");
  f.number("layer_norm_epsilon", o.norm_epsilon, 1e-5);
  f.number("embd_pdrop", o.dropout, 0.1);
  f.number("resid_pdrop", o.dropout, 0.1);
  f.unused("attn_pdrop", 0);  // attention has no dropout here
  f.flag("tie_word_embeddings", o.tied, true);
  f.only("scale_attn_weights", true);
  f.only("scale_attn_by_inverse_layer_idx", false);
  f.only("reorder_and_upcast_attn", false);
  f.only("add_cross_attention", false);
}

// The linear layers of GPT-2 have their weights as [in, out].
std::vector<WeightRow> gpt2_weights(const GptOptions& o) {
  const int64_t c = o.width, hidden = o.hidden ? o.hidden : 4 * c;
  WeightRows w;
  w.one("transformer.wte.weight", "tokens.weight", {o.vocabulary, c});
  w.one("transformer.wpe.weight", "positions", {o.context, c});
  for (int64_t i = 0; i < o.layers; ++i) {
    const std::string theirs = block_name("transformer.h.", i), ours = block_name("blocks.", i);
    w.norm(theirs + "ln_1", ours + "attention_norm", c);
    w.transposed(theirs + "attn.c_attn", ours + "attention.query_key_value", c, 3 * c);
    w.transposed(theirs + "attn.c_proj", ours + "attention.out", c, c);
    w.norm(theirs + "ln_2", ours + "feed_forward_norm", c);
    w.transposed(theirs + "mlp.c_fc", ours + "feed_forward.up", c, hidden);
    w.transposed(theirs + "mlp.c_proj", ours + "feed_forward.down", hidden, c);
  }
  w.norm("transformer.ln_f", "final_norm", c);
  if (!o.tied) w.one("lm_head.weight", "head.weight", {o.vocabulary, c});
  return w.rows;
}

}  // namespace

PretrainedKind<GptOptions> gpt2_kind() {
  return {.type = "gpt2",
          .prefix = "transformer.",
          .heads = {"lm_head."},
          .ignored = [](const GptOptions& o) -> std::vector<std::string> {
            // The causal mask, which old files have
            if (!o.tied) return {".attn.bias", ".attn.masked_bias"};
            return {".attn.bias", ".attn.masked_bias", "lm_head.weight"};
          },
          .config = gpt2_config,
          .architecture = [](const GptOptions&) { return "GPT2LMHeadModel"; },
          .layers = [](const GptOptions& o) { return o.layers; },
          .weights = gpt2_weights,
          .values = gpt_values};
}

}  // namespace vitrine::nn
