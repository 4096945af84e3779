#include "nn/gpt.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/creation.h"
#include "core/record.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/matmul.h"
#include "ops/softmax.h"
#include "ops/view.h"

namespace vitrine::nn {
namespace {

/// Layers that add to the residual stream start smaller, so that its variance does not grow with depth (GPT-2).
double residual_deviation(const GptOptions& o) {
  return 0.02 / std::sqrt(2.0 * static_cast<double>(o.layers));
}

/// [B, T, H·D] → [B, H, T, D].
Tensor split_heads(const Tensor& x, int64_t heads) {
  return permute(reshape(x, {x.size(0), x.size(1), heads, -1}), {0, 2, 1, 3});
}

}  // namespace

void GptOptions::validate() const {
  for (auto [name, value] : {std::pair{"vocabulary", vocabulary},
                             {"context", context},
                             {"width", width},
                             {"layers", layers},
                             {"heads", heads}})
    check(value > 0, "Gpt: {} is {}, wanted at least 1", name, value);
  check(width % heads == 0, "Gpt: the width {} is no multiple of the {} heads", width, heads);
  check(key_heads >= 0 && (key_heads == 0 || heads % key_heads == 0),
        "Gpt: {} query heads cannot share {} key heads evenly", heads, key_heads);
  check(hidden >= 0, "Gpt: the hidden size is {}, wanted at least 0", hidden);
}

MultiHeadAttention::MultiHeadAttention(const GptOptions& o)
    : query_key_value(o.width, o.width + 2 * o.width / o.heads * (o.key_heads ? o.key_heads : o.heads),
                      o.bias),
      out(o.width, o.width, o.bias, residual_deviation(o)),
      attention(parse_attention(o.attention), o.heads, o.width / o.heads, o.context),
      heads_(o.heads),
      key_heads_(o.key_heads ? o.key_heads : o.heads),
      head_size_(o.width / o.heads) {}

Tensor MultiHeadAttention::forward(const Tensor& x, KeyValueCache* cache, AttentionTrace* trace) const {
  const ModuleScope scope("attention");
  const auto qkv = split(query_key_value.forward(x),
                         {heads_ * head_size_, key_heads_ * head_size_, key_heads_ * head_size_}, -1);
  const int64_t past = cache && cache->k.defined() ? cache->k.size(2) : 0;
  const Tensor q = split_heads(qkv[0], heads_);
  Tensor k = attention.prepare_keys(split_heads(qkv[1], key_heads_), past),
         v = split_heads(qkv[2], key_heads_);
  if (past > 0) {
    k = concat({cache->k, k}, 2);
    v = concat({cache->v, v}, 2);
  }
  if (cache) *cache = {k, v};
  const Tensor y = attention.forward(q, k, v, {.causal = true, .allowed = {}}, past, trace);
  return out.forward(reshape(permute(y, {0, 2, 1, 3}), x.shape()));
}

void MultiHeadAttention::fields(Fields& f) {
  f("query_key_value", query_key_value);
  f("attention", attention);
  f("out", out);
}

Block::Block(const GptOptions& o)
    : attention_norm(o.width, o.norm),
      attention(o),
      feed_forward_norm(o.width, o.norm),
      feed_forward(o.width, o.hidden ? o.hidden : 4 * o.width, o.activation, o.bias, residual_deviation(o)),
      dropout(o.dropout),
      pre_norm_(o.pre_norm) {}

Tensor Block::forward(const Tensor& x, KeyValueCache* cache, AttentionTrace* trace) const {
  if (pre_norm_) {
    const Tensor h = x + dropout.forward(attention.forward(attention_norm.forward(x), cache, trace));
    return h + dropout.forward(feed_forward.forward(feed_forward_norm.forward(h)));
  }
  const Tensor h = attention_norm.forward(x + dropout.forward(attention.forward(x, cache, trace)));
  return feed_forward_norm.forward(h + dropout.forward(feed_forward.forward(h)));
}

void Block::fields(Fields& f) {
  f("attention_norm", attention_norm);
  f("attention", attention);
  f("feed_forward_norm", feed_forward_norm);
  f("feed_forward", feed_forward);
  f("dropout", dropout);
}

Gpt::Gpt(const GptOptions& options)
    : tokens((options.validate(), options.vocabulary), options.width),
      positions(options.context, options.width),
      dropout(options.dropout),
      final_norm(options.width, options.norm),
      options_(options) {
  for (int64_t i = 0; i < options.layers; ++i) blocks.push_back(std::make_unique<Block>(options));
}

Tensor Gpt::forward(const Tensor& ids, std::vector<KeyValueCache>* caches,
                    std::vector<AttentionTrace>* traces) const {
  check(ids.rank() == 2, "Gpt: the ids are {}, wanted [B, T]", ids.shape());
  if (caches) caches->resize(blocks.size());
  if (traces) traces->resize(blocks.size());
  const int64_t past = caches && (*caches)[0].k.defined() ? (*caches)[0].k.size(2) : 0, time = ids.size(1);
  check(past + time <= options_.context, "Gpt: {} positions are wanted, the context holds {}", past + time,
        options_.context);
  Tensor x = dropout.forward(tokens.forward(ids) + slice(positions.weight, 0, past, past + time));
  for (size_t i = 0; i < blocks.size(); ++i) {
    const ModuleScope scope("blocks." + std::to_string(i));
    x = blocks[i]->forward(x, caches ? &(*caches)[i] : nullptr, traces ? &(*traces)[i] : nullptr);
  }
  return linear(options_.pre_norm ? final_norm.forward(x) : x, tokens.weight);
}

void Gpt::fields(Fields& f) {
  f("tokens", tokens);
  f("positions", positions);
  f("dropout", dropout);
  for (size_t i = 0; i < blocks.size(); ++i) f("blocks." + std::to_string(i), *blocks[i]);
  if (options_.pre_norm) f("final_norm", final_norm);
}

int64_t sample_token(const Tensor& logits, const SamplingOptions& o, Generator& generator) {
  check(o.temperature >= 0 && o.top_k >= 0 && o.top_p > 0 && o.top_p <= 1,
        "generate: wanted temperature ≥ 0, top_k ≥ 0 and top_p in (0, 1], got {}, {} and {}", o.temperature,
        o.top_k, o.top_p);
  const std::vector<double> x = logits.values();
  std::vector<int64_t> order(x.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return x[static_cast<size_t>(a)] > x[static_cast<size_t>(b)];
  });
  if (o.temperature == 0) return order[0];
  if (o.top_k > 0) order.resize(std::min(order.size(), static_cast<size_t>(o.top_k)));
  std::vector<double> p;
  double total = 0;
  for (int64_t i : order) {
    p.push_back(std::exp((x[static_cast<size_t>(i)] - x[static_cast<size_t>(order[0])]) / o.temperature));
    total += p.back();
  }
  size_t kept = 0;
  double mass = 0;
  while (kept < p.size() && mass < o.top_p * total) mass += p[kept++];
  double left = generator.next_uniform() * mass;
  for (size_t i = 0; i < kept; ++i)
    if ((left -= p[i]) < 0) return order[i];
  return order[kept - 1];
}

std::vector<int64_t> generate(Gpt& model, std::vector<int64_t> tokens, int64_t count,
                              const SamplingOptions& options) {
  check(!tokens.empty(), "generate: the prompt is empty");
  const Tape::Pause pause;
  const bool was_training = model.training();
  model.eval();
  Generator generator(options.seed);
  std::vector<KeyValueCache> caches;
  size_t seen = 0;  // tokens that the caches hold
  const auto context = static_cast<size_t>(model.options().context);
  for (int64_t i = 0; i < count; ++i) {
    if (tokens.size() - seen +
            (caches.empty() ? 0 : static_cast<size_t>(caches[0].k.defined() ? caches[0].k.size(2) : 0)) >
        context) {
      // The positions are used up: start again from the newer half of the context.
      caches.clear();
      seen = tokens.size() - std::min(tokens.size(), std::max<size_t>(1, context / 2));
    }
    const std::span<const int64_t> fresh(tokens.data() + seen, tokens.size() - seen);
    const Tensor logits =
        model.forward(index_tensor(fresh, {1, static_cast<int64_t>(fresh.size())}), &caches);
    seen = tokens.size();
    tokens.push_back(sample_token(select(select(logits, 0, 0), 0, -1), options, generator));
  }
  model.train(was_training);
  return tokens;
}

}  // namespace vitrine::nn
