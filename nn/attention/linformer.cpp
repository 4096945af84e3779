#include "nn/attention/linformer.h"

#include <algorithm>
#include <cmath>

#include "nn/init.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "ops/view.h"

namespace vitrine::nn {
namespace {

const char* const kNotCausal =
    "linformer: each projected key mixes all positions, so that later ones cannot be hidden and a state cannot "
    "be continued; wanted an attention that is not causal, as in an encoder, or the base linear";

int64_t rank_of(int64_t rank, int64_t context) {
  check(rank >= 0 && rank <= context, "linformer: the rank is {}, wanted at most the context, {}", rank,
        context);
  return rank > 0 ? rank : std::max<int64_t>(1, context / 4);
}

}  // namespace

// Every query sees R keys, and a scale that depends on n takes half of a context as n.
Linformer::Linformer(const AttentionName& parts, const AttentionSizes& sizes, int64_t rank)
    : map(parts, sizes.heads, sizes.head_size, 2 * rank_of(rank, sizes.context)), context_(sizes.context) {
  for (size_t i = 0; i < map.parts.size(); ++i)
    check(
        !map.parts[i]->traits().positions && !map.parts[i]->traits().distances,
        "linformer: {} depends on positions, and a projected key mixes all positions; wanted positions of the "
        "model",
        map.name().parts[i].row->name);
  const Shape shape{rank_of(rank, context_), context_};
  // A projected key has the variance of a key.
  const double deviation = 1 / std::sqrt(static_cast<double>(context_));
  key_projection = normal(shape, deviation), value_projection = normal(shape, deviation);
}

Tensor Linformer::forward(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMask& mask,
                          DecodingState* state, MixerTrace* trace) const {
  check(!mask.causal && state == nullptr, "{}", kNotCausal);
  check(k.rank() == 4 && v.rank() == 4 && k.size(2) == v.size(2) && k.size(2) <= context_,
        "linformer: k is {} and v {}, wanted [B, Hkv, T, D] with T at most the context, {}", k.shape(),
        v.shape(), context_);
  check(!mask.start.defined(),
        "linformer: rows begin at different positions (padding before the text), and each position has its "
        "own weights; wanted padding after the text");
  const Tensor seen = shared_keys(mask, k.size(2), "linformer");
  const auto projected = [&](const Parameter& weight, const Tensor& x) {
    return matmul(slice(weight, 1, 0, x.size(2)), seen.defined() ? where(seen, x, 0.0) : x);
  };
  return map.forward(q, projected(key_projection, k), projected(value_projection, v), {}, nullptr, trace);
}

std::unique_ptr<DecodingState> Linformer::make_state(int64_t, int64_t) const { fail("{}", kNotCausal); }

std::string Linformer::explain(bool weights_wanted, const AttentionMask&) const {
  return fmt::format("linformer: keys and values are projected to {} rows; {}", key_projection.shape()[0],
                     map.explain(weights_wanted));
}

void Linformer::fields(Fields& f) {
  f("map", map);
  f("key_projection", key_projection);
  f("value_projection", value_projection);
}

Linformer Linformer::clone() {
  return clone_into([this] {
    return Linformer(map.name(), {map.sizes().heads, map.sizes().head_size, context_},
                     key_projection.shape()[0]);
  });
}

}  // namespace vitrine::nn
