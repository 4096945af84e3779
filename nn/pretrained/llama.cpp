// LLaMA (Touvron et al. 2023): rotary positions by halves, RMS norms, gated feed-forward parts, and
// grouped key heads.
#include <optional>

#include "nn/pretrained/kinds.h"
#include "nn/transformer/mixers.h"

namespace vitrine::nn {
namespace {

constexpr double kTheta = 10000;

std::string rotary(double theta) {
  std::string text = fmt::format("rotary=theta={}", theta);
  std::erase(text, '+');  // of an exponent: a + joins the parts of a name
  return theta == kTheta ? "rotary" : text;
}

/// The theta of a mixer that is dot-product attention with rotary positions by halves; nothing for
/// another mixer.
std::optional<double> theta_of(const std::string& mixer) {
  const MixerName name = parse_mixer(mixer);
  if (name.base->name != "standard" || name.parts.parts.size() != 1) return {};
  const PartChoice& part = name.parts.parts[0];
  if (part.row->name != "rotary") return {};
  if (part.values.text("pairs") != "half") return {};
  for (const char* option : {"share", "linear", "ntk"})
    if (part.values.number(option) != 1) return {};
  return part.values.number("theta");
}

/// One spelling for all names of the same rotary positions. Another mixer keeps its name, so that
/// save_pretrained refuses it.
OptionValues llama_values(const GptOptions& options) {
  GptOptions o = options;
  if (const auto theta = theta_of(o.mixer)) o.mixer = rotary(*theta);
  return gpt_values(o);
}

void list_rotary(ConfigFields& f, GptOptions& o) {
  double theta = theta_of(o.mixer).value_or(kTheta);
  f.number("rope_theta", theta, kTheta);
  const auto only_default = [](ConfigFields& members) {
    members.only("rope_type", "default");
    members.only("type", "default");
  };
  // Since version 5 of `transformers` an object has it; the member of before is written, too.
  f.object("rope_parameters", [&](ConfigFields& members) {
    members.number("rope_theta", theta, theta);
    members.only("rope_type", "default");
    members.only("partial_rotary_factor", 1);
  });
  if (f.reads()) f.object("rope_scaling", only_default);
  if (f.reads()) o.mixer = rotary(theta);
}

void llama_config(ConfigFields& f, GptOptions& o) {
  f.size("vocab_size", o.vocabulary);
  f.size("max_position_embeddings", o.context);
  f.size("hidden_size", o.width);
  f.size("num_hidden_layers", o.layers);
  f.size("num_attention_heads", o.heads);
  f.size("num_key_value_heads", o.key_heads, o.heads);
  int64_t head_size = o.width / o.heads;
  f.size("head_dim", head_size, head_size);
  if (head_size * o.heads != o.width)
    f.fail(fmt::format("has {} heads of head_dim {}, wanted that many to make hidden_size {}", o.heads,
                       head_size, o.width));
  f.size("intermediate_size", o.hidden);
  f.choice<Activation>("hidden_act", o.activation,
                       {{"silu", Activation::swiglu},
                        {"swish", Activation::swiglu},
                        {"gelu", Activation::geglu},
                        {"relu", Activation::reglu}},
                       "silu");
  f.number("rms_norm_eps", o.norm_epsilon, 1e-6);
  f.flag("tie_word_embeddings", o.tied, false);
  bool attention_bias = o.bias == Bias::yes, mlp_bias = attention_bias;
  f.flag("attention_bias", attention_bias, false);
  f.flag("mlp_bias", mlp_bias, false);
  if (attention_bias != mlp_bias)
    f.fail(fmt::format("has attention_bias {} and mlp_bias {}, wanted the same for both", attention_bias,
                       mlp_bias));
  o.bias = mlp_bias ? Bias::yes : Bias::no;
  f.unused("attention_dropout", 0);
  f.absent("sliding_window");
  list_rotary(f, o);
}

std::vector<WeightRow> llama_weights(const GptOptions& o) {
  const int64_t c = o.width, keys = c / o.heads * (o.key_heads ? o.key_heads : o.heads),
                hidden = o.hidden ? o.hidden : 4 * c;
  const bool bias = o.bias == Bias::yes;
  WeightRows w;
  w.one("model.embed_tokens.weight", "tokens.weight", {o.vocabulary, c});
  for (int64_t i = 0; i < o.layers; ++i) {
    const std::string theirs = block_name("model.layers.", i), ours = block_name("blocks.", i);
    w.norm(theirs + "input_layernorm", ours + "attention_norm", c, false);
    w.joined({{theirs + "self_attn.q_proj", c},
              {theirs + "self_attn.k_proj", keys},
              {theirs + "self_attn.v_proj", keys}},
             ours + "attention.query_key_value", c, bias);
    w.linear(theirs + "self_attn.o_proj", ours + "attention.out", c, c, bias);
    w.norm(theirs + "post_attention_layernorm", ours + "feed_forward_norm", c, false);
    w.joined({{theirs + "mlp.gate_proj", hidden}, {theirs + "mlp.up_proj", hidden}}, ours + "feed_forward.up",
             c, bias);
    w.linear(theirs + "mlp.down_proj", ours + "feed_forward.down", hidden, c, bias);
  }
  w.norm("model.norm", "final_norm", c, false);
  if (!o.tied) w.one("lm_head.weight", "head.weight", {o.vocabulary, c});
  return w.rows;
}

}  // namespace

PretrainedKind<GptOptions> llama_kind() {
  return {.type = "llama",
          .prefix = "model.",
          .heads = {"lm_head."},
          .ignored = [](const GptOptions& o) -> std::vector<std::string> {
            if (!o.tied) return {".rotary_emb.inv_freq"};
            return {".rotary_emb.inv_freq", "lm_head.weight"};
          },
          .fixed = {.mixer = "rotary", .activation = Activation::swiglu, .norm = NormKind::rms},
          .config = llama_config,
          .architecture = [](const GptOptions&) { return "LlamaForCausalLM"; },
          .layers = [](const GptOptions& o) { return o.layers; },
          .weights = llama_weights,
          .values = llama_values};
}

}  // namespace vitrine::nn
