#include "nn/models/gpt.h"

#include <utility>

#include "core/creation.h"
#include "core/memory/machine.h"
#include "core/record.h"
#include "nn/attention/positions.h"
#include "nn/init.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "ops/view.h"

namespace vitrine::nn {
namespace {

constexpr double kDeviation = 0.02;  // of GPT-2's weights at the start

double out_deviation(const GptOptions& o) { return residual_deviation(kDeviation, o.layers); }

MultiHeadOptions attention_options(const GptOptions& o) {
  return {o.width, o.heads, o.key_heads, o.context, o.attention, o.bias, out_deviation(o)};
}

Positions resolved(const GptOptions& o) {
  if (o.positions != Positions::automatic) return o.positions;
  return brings_positions(o.attention, {o.heads, o.width / o.heads, o.context}) ? Positions::none
                                                                                : Positions::learned;
}

}  // namespace

void GptOptions::list(OptionList& o) {
  o.group("Model");
  o("vocabulary", vocabulary, "number of tokens").at_least(1);
  o("attention", attention, "parts joined by +:\n" + attention_parts());
  o("layers", layers, "blocks").at_least(1);
  o("heads", heads, "query heads").at_least(1);
  o("key-heads", key_heads, "key heads; 0: as many as query heads").at_least(0);
  o("width", width, "channels").at_least(1);
  o("context", context, "longest sequence").at_least(1);
  o("hidden", hidden, "size of the feed-forward layer; 0: four times the width").at_least(0);
  o("activation", activation, "of the feed-forward layer");
  o("norm", norm, "LayerNorm or RMSNorm");
  o.flag("post-norm", pre_norm, false, "norms after the sums instead of before attention and feed-forward");
  o.flag("no-bias", bias, Bias::no, "linear layers without bias");
  o("dropout", dropout, "probability").at_least(0).below(1);
  o("positions", positions, "what tells tokens apart by their place");
  o("checkpoint-blocks", recompute_blocks, "less memory: compute blocks again in the backward")
      .decides(Role::execution);
}

void GptOptions::validate() const {
  check_options(*this, "Gpt");
  check(width % heads == 0, "Gpt: the width {} is no multiple of the {} heads", width, heads);
  check(key_heads == 0 || heads % key_heads == 0, "Gpt: {} query heads cannot share {} key heads evenly",
        heads, key_heads);
  parse_attention(attention);
  check(positions != Positions::sinusoidal || width % 2 == 0,
        "Gpt: the width {} is odd, and sinusoidal positions come in pairs of channels", width);
  const auto w = static_cast<double>(width), rows = static_cast<double>(vocabulary),
             places = resolved(*this) == Positions::learned ? static_cast<double>(context) : 0,
             inside = hidden > 0 ? static_cast<double>(hidden) : 4 * w;
  // Queries and the output of attention, and two layers of the feed-forward; keys may be few.
  const double block = 2 * w * w + 2 * w * inside;
  check_memory(4 * (w * (rows + places) + block * static_cast<double>(layers)),
               fmt::format("Gpt: vocabulary {}, context {}, width {}, hidden {} and layers {}", vocabulary,
                           context, width, hidden, layers));
}

TransformerBlock::TransformerBlock(const GptOptions& o)
    : attention_norm(o.width, o.norm),
      attention(attention_options(o)),
      feed_forward_norm(o.width, o.norm),
      feed_forward(o.width, o.hidden ? o.hidden : 4 * o.width, o.activation, o.bias, out_deviation(o)),
      dropout(o.dropout),
      options_(o) {}

Tensor TransformerBlock::forward(const Tensor& x, KeyValueCache* cache, AttentionTrace* trace) const {
  const AttentionMask causal{.causal = true};
  if (options_.pre_norm) {
    const Tensor attended = attention.forward(attention_norm.forward(x), causal, cache, trace);
    const AddNorm h = feed_forward_norm.forward(x, dropout.forward(attended));
    return h.sum() + dropout.forward(feed_forward.forward(h.y()));
  }
  const Tensor h = attention_norm.forward(x, dropout.forward(attention.forward(x, causal, cache, trace))).y();
  return feed_forward_norm.forward(h, dropout.forward(feed_forward.forward(h))).y();
}

TransformerBlock TransformerBlock::clone() {
  return clone_into([this] { return TransformerBlock(options_); });
}

void TransformerBlock::fields(Fields& f) {
  f("attention_norm", attention_norm);
  f("attention", attention);
  f("feed_forward_norm", feed_forward_norm);
  f("feed_forward", feed_forward);
  f("dropout", dropout);
}

Gpt::Gpt(const GptOptions& options)
    : tokens((options.validate(), options.vocabulary), options.width, kDeviation),
      dropout(options.dropout),
      final_norm(options.width, options.norm),
      options_(options) {
  options_.positions = resolved(options);
  if (options_.positions == Positions::learned)
    positions = normal({options.context, options.width}, kDeviation);
  for (int64_t i = 0; i < options.layers; ++i) blocks.push_back(std::make_unique<TransformerBlock>(options));
  named_parameters();  // gives them their names, for messages and drawings
}

Tensor Gpt::features(const Tensor& ids, std::vector<KeyValueCache>* caches,
                     std::vector<AttentionTrace>* traces) const {
  check(ids.rank() == 2, "Gpt: the ids are {}, wanted [B, T]", ids.shape());
  while (caches && caches->size() < blocks.size()) caches->emplace_back(options_.context);
  if (traces) traces->resize(blocks.size());
  const int64_t past = caches ? (*caches)[0].size() : 0, time = ids.size(1);
  check(past + time <= options_.context, "Gpt: {} positions are wanted, the context holds {}", past + time,
        options_.context);
  Tensor x;
  {
    const ModuleScope scope("tokens");
    x = tokens.forward(ids);
    if (options_.positions != Positions::none) x = x + position_rows(past, past + time, x);
    x = dropout.forward(x);
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    TransformerBlock& block = *blocks[i];
    const ModuleScope scope("blocks." + std::to_string(i));
    if (options_.recompute_blocks && !caches && !traces) {
      x = recompute(block, [&block, x] { return block.forward(x); });
    } else {
      x = block.forward(x, caches ? &(*caches)[i] : nullptr, traces ? &(*traces)[i] : nullptr);
    }
  }
  const ModuleScope scope("final_norm");
  return options_.pre_norm ? final_norm.forward(x) : x;
}

Tensor Gpt::logits(const Tensor& features) const {
  const ModuleScope scope("logits");
  return linear(features, tokens.weight);
}

Tensor Gpt::forward(const Tensor& ids, std::vector<KeyValueCache>* caches,
                    std::vector<AttentionTrace>* traces) const {
  return logits(features(ids, caches, traces));
}

Gpt Gpt::clone() {
  return clone_into([this] { return Gpt(options_); });
}

Tensor Gpt::position_rows(int64_t begin, int64_t end, const Tensor& like) const {
  if (options_.positions == Positions::learned) return slice(positions, 0, begin, end);
  return sinusoidal_positions(end - begin, options_.width, 10000, begin, like.dtype(), like.device());
}

void Gpt::fields(Fields& f) {
  f("tokens", tokens);
  f("positions", positions);
  f("dropout", dropout);
  for (size_t i = 0; i < blocks.size(); ++i) f("blocks." + std::to_string(i), *blocks[i]);
  if (options_.pre_norm) f("final_norm", final_norm);
}

}  // namespace vitrine::nn
