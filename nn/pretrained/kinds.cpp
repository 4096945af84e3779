#include "nn/pretrained/kinds.h"

#include <algorithm>

namespace vitrine::nn {

const std::vector<std::pair<const char*, Activation>>& pretrained_activations() {
  static const std::vector<std::pair<const char*, Activation>> all = {
      {"gelu_new", Activation::gelu_tanh}, {"gelu_pytorch_tanh", Activation::gelu_tanh},
      {"gelu", Activation::gelu},          {"relu", Activation::relu},
      {"silu", Activation::silu},          {"swish", Activation::silu}};
  return all;
}

OptionValues gpt_values(const GptOptions& options) {
  GptOptions o = options;
  o.key_heads = o.key_heads ? o.key_heads : o.heads;
  o.hidden = o.hidden ? o.hidden : 4 * o.width;
  o.positions =
      resolved(o.positions, {.width = o.width, .heads = o.heads, .context = o.context, .name = o.mixer});
  OptionValues values = option_values(o, {Role::result});
  // They have no effect in evaluation mode.
  std::erase_if(values, [](const auto& v) { return v.first == "dropout" || v.first == "drop-path"; });
  return values;
}

OptionValues stack_values(const StackOptions& options) {
  const BlockOptions& o = options.block;
  const MixerOptions& m = o.mixer;
  const auto text = [](Bias bias) { return std::string(bias == Bias::yes ? "yes" : "no"); };
  return {{"layers", std::to_string(options.layers)},
          {"mixer", m.name},
          {"width", std::to_string(m.width)},
          {"heads", std::to_string(m.heads)},
          {"key heads", std::to_string(m.key_heads ? m.key_heads : m.heads)},
          {"context", std::to_string(m.context)},
          {"bias of queries", text(m.bias.query)},
          {"bias of keys", text(m.bias.key)},
          {"bias of values", text(m.bias.value)},
          {"bias of the output projection", text(m.bias.out)},
          {"cross-attention", o.cross ? "yes" : "no"},
          {"reversible", options.reversible ? "yes" : "no"},
          {"universal", options.universal ? "yes" : "no"},
          {"feed-forward", name_of(o.feed_forward)},
          {"hidden", std::to_string(hidden_of(o))},
          {"activation", name_of(o.activation)},
          {"experts", std::to_string(o.experts.count)},
          {"norm", name_of(o.norm)},
          {"norm epsilon", fmt::format("{}", o.norm_epsilon)},
          {"residual", name_of(o.residual)},
          {"bias of the feed-forward part", text(o.bias)}};
}

void encoder_fields(ConfigFields& f, StackOptions& stack, double dropout) {
  BlockOptions& block = stack.block;
  f.size("hidden_size", block.mixer.width);
  f.size("num_hidden_layers", stack.layers);
  f.size("num_attention_heads", block.mixer.heads);
  block.hidden = hidden_of(block);
  f.size("intermediate_size", block.hidden);
  f.choice("hidden_act", block.activation, pretrained_activations(), "gelu");
  f.number("layer_norm_eps", block.norm_epsilon, 1e-12);
  f.number("hidden_dropout_prob", block.dropout, dropout);
  f.unused("attention_probs_dropout_prob", 0);  // attention has no dropout here
}

std::string block_name(const std::string& before, int64_t block) {
  return fmt::format("{}{}.", before, block);
}

int64_t hidden_of(const BlockOptions& o) { return o.hidden ? o.hidden : 4 * o.mixer.width; }

}  // namespace vitrine::nn
