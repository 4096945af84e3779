// Attention and rotary positions.
#include <cmath>

#include "core/creation.h"
#include "nn/attention/composed.h"
#include "nn/attention/positions.h"
#include "ops/attention.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/join.h"
#include "ops/linear_scan.h"
#include "ops/matmul.h"
#include "ops/view.h"
#include "tests/ops/onnx/adapters.h"

namespace vitrine::test {
namespace {

/// [B, T, H·D] as [B, H, T, D]; a tensor with four axes is unchanged.
Tensor split_heads(const Tensor& x, int64_t heads) {
  if (x.rank() == 4) return x;
  return permute(reshape(x, {x.size(0), x.size(1), heads, -1}), {0, 2, 1, 3});
}

Tensor merge_heads(const Tensor& x) { return reshape(permute(x, {0, 2, 1, 3}), {x.size(0), x.size(2), -1}); }

Tensor both(const Tensor& x, const Tensor& y) { return x.defined() ? logical_and(x, y) : y; }

/// The mask of the case, added to the scores or bool. Keys beyond its end are hidden.
void read_mask(Case c, int64_t keys, AttentionOptions& o) {
  if (!c.has(3)) return;
  const Tensor mask = c.in(3);
  std::vector<int64_t> none(static_cast<size_t>(mask.rank()), 0), missing = none;
  missing.back() = keys - mask.size(-1);
  const bool added = is_floating(mask.dtype());
  (added ? o.bias : o.allowed) = pad(mask, none, missing, PadMode::constant, added ? -INFINITY : 0);
}

/// In ONNX, causality counts from the first query, which comes after the past. In Vitrine, the last
/// query is aligned with the last key.
void read_causality(Case c, int64_t past, int64_t queries, int64_t keys, AttentionOptions& o) {
  if (c.attribute("is_causal", 0) == 0) return;
  o.causal = keys - queries == past;
  if (!o.causal) o.allowed = both(o.allowed, tril(full({queries, keys}, 1, DType::boolean), past));
}

AttentionOptions options_of(Case c, int64_t past, int64_t queries, int64_t keys) {
  AttentionOptions o;
  o.scale = c.attribute("scale", 0.0);
  o.softcap = c.attribute("softcap", 0.0);
  read_mask(c, keys, o);
  read_causality(c, past, queries, keys, o);
  if (c.has(6)) o.allowed = both(o.allowed, nn::padding_mask(integers(c.in(6)), keys));
  return o;
}

/// The fourth output: 0 is the scores, 1 the scores after the softcap, 2 also after the mask, 3 the
/// weights, which the generic path keeps.
Tensor shown(int64_t stage, const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& o) {
  const double scale = o.scale != 0 ? o.scale : 1 / std::sqrt(static_cast<double>(q.size(3)));
  std::string name = fmt::format("scale={:.17g}", scale);
  if (o.softcap > 0) name += fmt::format("+softcap={:.17g}", o.softcap);
  const nn::ComposedAttention module(nn::parse_attention(name), q.size(1), q.size(3), k.size(2));
  const nn::AttentionMask mask{.causal = o.causal, .allowed = o.allowed, .bias = o.bias};
  nn::MixerTrace trace;
  module.forward(q, k, v, mask, nullptr, &trace);
  if (stage == 3) return trace.weights;
  Tensor scores = matmul(trace.q * trace.scale, transpose(repeat(trace.k, q.size(1) / k.size(1), 1)));
  if (stage >= 1 && o.softcap > 0) scores = o.softcap * tanh(scores / o.softcap);
  if (stage >= 2 && o.bias.defined()) scores = scores + o.bias;
  const Tensor visible = mask.visible(q.size(2), k.size(2), q.device());
  return stage >= 2 && visible.defined() ? where(visible, scores, -INFINITY) : scores;
}

Outputs attention_case(Case c) {
  const int64_t heads = c.attribute("q_num_heads", int64_t{1}),
                key_heads = c.attribute("kv_num_heads", int64_t{1});
  const Tensor q = split_heads(c.in(0), heads);
  Tensor k = split_heads(c.in(1), key_heads), v = split_heads(c.in(2), key_heads);
  const int64_t past = c.has(4) ? c.in(4).size(2) : 0;
  if (c.has(4)) k = concat({c.in(4), k}, 2), v = concat({c.in(5), v}, 2);
  const AttentionOptions o = options_of(c, past, q.size(2), k.size(2));
  const Tensor y = attention(q, k, v, o);
  const int64_t stage = c.attribute("qk_matmul_output_mode", int64_t{0});
  return {c.in(0).rank() == 3 ? merge_heads(y) : y, k, v,
          c.wants(3) ? cast(shown(stage, q, k, v, o), q.dtype()) : Tensor()};
}

/// Attention without masks, and without the programs that it can be given.
Outputs flex_attention(Case c) {
  AttentionOptions o;
  o.scale = c.attribute("scale", 0.0);
  return {attention(c.in(0), c.in(1), c.in(2), o)};
}

/// Tables of cosines and sines. If positions are given, they select the rows of the tables.
Outputs rotary(Case c) {
  const Tensor x = split_heads(c.in(0), c.attribute("num_heads", int64_t{1}));
  const auto table = [&](size_t slot) {
    return unsqueeze(c.has(3) ? index_select(c.in(slot), 0, c.in(3)) : c.in(slot), 1);
  };
  nn::RotaryOptions o;
  o.size = c.attribute("rotary_embedding_dim", int64_t{0});
  o.interleaved = c.attribute("interleaved", 0) != 0;
  const Tensor y = nn::rotate(x, table(1), table(2), o);
  return {c.in(0).rank() == 3 ? merge_heads(y) : y};
}

/// Linear recurrences: `update_rule` says whether they have a decay, which is a logarithm, and the
/// delta rule.
Outputs linear_attention(Case c) {
  const int64_t heads = c.attribute("q_num_heads", int64_t{1}),
                key_heads = c.attribute("kv_num_heads", int64_t{1}), shared = heads / key_heads;
  const auto rule = c.attribute("update_rule", std::string("gated_delta"));
  const Tensor q = split_heads(c.in(0), heads);
  const auto of_keys = [&](size_t slot) { return repeat(split_heads(c.in(slot), key_heads), shared, 1); };
  Tensor k = of_keys(1);
  const Tensor v = of_keys(2);
  const double scale = c.attribute("scale", 0.0);
  LinearScanOptions o{.scale = scale == 0 ? 1 / std::sqrt(static_cast<double>(q.size(3))) : scale};
  if (c.has(3)) o.state = repeat(c.in(3), shared, 1);
  if (rule.starts_with("gated")) o.log_decay = of_keys(4);
  if (rule.ends_with("delta")) {
    const Tensor beta = of_keys(5);
    o.erase_from = o.log_decay.defined() ? exp(o.log_decay) * k : k;
    k = beta * k;
    o.erase_to = -k;
  }
  const LinearScanStates y = linear_scan(q, k, v, o);
  std::vector<Tensor> states;
  for (int64_t h = 0; h < heads; h += shared) states.push_back(select(y.state, 1, h));
  return {merge_heads(y.o), stack(states, 1)};
}

}  // namespace

const OnnxAdapters kAttentionAdapters = {
    {"Attention", attention_case},
    {"FlexAttention", flex_attention},
    {"LinearAttention", linear_attention},
    {"RotaryEmbedding", rotary},
};

}  // namespace vitrine::test
