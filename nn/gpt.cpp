#include "nn/gpt.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/checkpoint.h"
#include "core/creation.h"
#include "core/record.h"
#include "nn/init.h"
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

MultiHeadOptions attention_options(const GptOptions& o) {
  return {o.width, o.heads, o.key_heads, o.context, o.attention, o.bias, residual_deviation(o)};
}

Positions resolved(const GptOptions& o) {
  if (o.positions != Positions::automatic) return o.positions;
  const AttentionSetting attention = parse_attention(o.attention);
  return attention.rotary || attention.alibi ? Positions::none : Positions::learned;
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

Positions positions_of(const std::string& name) {
  if (name == "automatic") return Positions::automatic;
  if (name == "learned") return Positions::learned;
  if (name == "sinusoidal") return Positions::sinusoidal;
  if (name == "none") return Positions::none;
  fail(
      "there are no positions {}: wanted automatic, learned, sinusoidal or none (rotary and alibi are parts "
      "of attention)",
      name);
}

Block::Block(const GptOptions& o)
    : attention_norm(o.width, o.norm),
      attention(attention_options(o)),
      feed_forward_norm(o.width, o.norm),
      feed_forward(o.width, o.hidden ? o.hidden : 4 * o.width, o.activation, o.bias, residual_deviation(o)),
      dropout(o.dropout),
      pre_norm_(o.pre_norm) {}

Tensor Block::forward(const Tensor& x, KeyValueCache* cache, AttentionTrace* trace) const {
  const AttentionMask causal{.causal = true};
  if (pre_norm_) {
    const Tensor h = x + dropout.forward(attention.forward(attention_norm.forward(x), causal, cache, trace));
    return h + dropout.forward(feed_forward.forward(feed_forward_norm.forward(h)));
  }
  const Tensor h = attention_norm.forward(x + dropout.forward(attention.forward(x, causal, cache, trace)));
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
      dropout(options.dropout),
      final_norm(options.width, options.norm),
      options_(options) {
  options_.positions = resolved(options);
  if (options_.positions == Positions::learned) positions = normal({options.context, options.width}, 0.02);
  for (int64_t i = 0; i < options.layers; ++i) blocks.push_back(std::make_unique<Block>(options));
}

Tensor Gpt::forward(const Tensor& ids, std::vector<KeyValueCache>* caches,
                    std::vector<AttentionTrace>* traces) const {
  check(ids.rank() == 2, "Gpt: the ids are {}, wanted [B, T]", ids.shape());
  while (caches && caches->size() < blocks.size()) caches->emplace_back(options_.context);
  if (traces) traces->resize(blocks.size());
  const int64_t past = caches ? (*caches)[0].size() : 0, time = ids.size(1);
  check(past + time <= options_.context, "Gpt: {} positions are wanted, the context holds {}", past + time,
        options_.context);
  Tensor x = tokens.forward(ids);
  if (options_.positions != Positions::none) x = x + position_rows(past, past + time, x.dtype());
  x = dropout.forward(x);
  for (size_t i = 0; i < blocks.size(); ++i) {
    const ModuleScope scope("blocks." + std::to_string(i));
    const auto run = [&] {
      return blocks[i]->forward(x, caches ? &(*caches)[i] : nullptr, traces ? &(*traces)[i] : nullptr);
    };
    const bool again = options_.checkpoint_blocks && training() && !caches && !traces;
    x = again ? checkpoint([block = blocks[i].get(), x] { return block->forward(x); }) : run();
  }
  return linear(options_.pre_norm ? final_norm.forward(x) : x, tokens.weight);
}

Tensor Gpt::position_rows(int64_t begin, int64_t end, DType dtype) const {
  if (options_.positions == Positions::learned) return slice(positions, 0, begin, end);
  return sinusoidal_positions(end - begin, options_.width, 10000, begin, dtype);
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
    if (tokens.size() - seen + (caches.empty() ? 0 : static_cast<size_t>(caches[0].size())) > context) {
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
