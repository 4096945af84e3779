#include "nn/attention/latent.h"

#include <algorithm>

#include "core/record.h"
#include "nn/attention/cache.h"
#include "nn/attention/positions.h"
#include "nn/init.h"
#include "nn/layers/heads.h"
#include "ops/join.h"
#include "ops/matmul.h"
#include "ops/view.h"

namespace vitrine::nn {
namespace {

/// The sizes, with those that are 0 replaced.
LatentSizes resolved(const MixerOptions& o, LatentSizes s) {
  check_heads("latent", o.width, o.heads);
  const int64_t size = o.width / o.heads;
  if (s.rank == 0) s.rank = std::max<int64_t>(1, std::min(4 * size, o.width / 2));
  if (s.rotary == 0) s.rotary = std::max<int64_t>(2, size / 4 * 2);
  check(s.rank > 0 && s.rotary > 0 && s.rotary % 2 == 0,
        "latent: a rank of {} and a rotary key of {} channels, wanted numbers above 0, the second even, such "
        "as {}",
        s.rank, s.rotary, std::max<int64_t>(2, s.rotary + s.rotary % 2));
  return s;
}

/// Whether the output for values Wv·c is Wv·(the output for the values c).
bool is_linear_in_values(const ComposedAttention& read) {
  const auto& parts = read.name().parts;
  return std::none_of(parts.begin(), parts.end(), [](const PartChoice& part) {
    return part.row->stage == Stage::read || part.row->stage == Stage::combine;
  });
}

}  // namespace

const std::vector<Stage>& LatentAttention::stages() {
  static const std::vector<Stage> stages = {Stage::scale,    Stage::modify, Stage::mask,   Stage::normalize,
                                            Stage::reweight, Stage::read,   Stage::combine};
  return stages;
}

LatentAttention::LatentAttention(const MixerOptions& o, const LatentSizes& sizes, const AttentionName& parts)
    : query(o.width, o.width + o.heads * resolved(o, sizes).rotary, o.bias.query),
      down(o.width, resolved(o, sizes).rank + resolved(o, sizes).rotary, o.bias.key),
      norm(resolved(o, sizes).rank, NormKind::rms),
      up_key(normal({o.heads, o.width / o.heads, resolved(o, sizes).rank}, 0.02)),
      up_value(normal({o.heads, o.width / o.heads, resolved(o, sizes).rank}, 0.02)),
      out(o.width, o.width, o.bias.out, o.out_deviation),
      read(parts, o.heads, o.width / o.heads + resolved(o, sizes).rotary, o.context),
      options_(o),
      sizes_(resolved(o, sizes)) {
  check_stages("latent", parts, stages());
}

Tensor LatentAttention::forward(const Tensor& x, const MixerCall& call) const {
  const int64_t heads = options_.heads, size = options_.width / heads;
  check(x.rank() == 3 && x.size(2) == options_.width, "latent: x is {}, wanted [B, T, {}]", x.shape(),
        options_.width);
  check(!call.source.defined(), "latent: rotary positions have no meaning between x and a source");
  const ModuleScope scope(kind());
  auto* const cache = dynamic_cast<KeyValueCache*>(call.state);
  check(call.state == nullptr || cache != nullptr,
        "latent: the state is not one of latent attention; wanted what make_state gave");
  const int64_t past = cache ? cache->length() : 0;
  const auto parts = split(split_heads(query.forward(x), heads), {size, sizes_.rotary}, -1);
  const Tensor q = parts[0], rotary_query = rotate(parts[1], past);
  const auto low = split(down.forward(x), {sizes_.rank, sizes_.rotary}, -1);
  // One key head for all query heads: [B, 1, T, ..].
  Tensor c = unsqueeze(norm.forward(low[0]), 1), rotary_key = rotate(unsqueeze(low[1], 1), past);
  const AttentionMask mask = with_lengths(call.mask, call.lengths, x.size(0), past + x.size(1));
  Tensor stored;
  if (cache) {
    // c is the value as well, so the cache stores values without channels.
    const Tensor fresh = concat({c, rotary_key}, -1);
    stored = cache->append(fresh, slice(fresh, -1, 0, 0)).first;
  }
  if (past > 0) {
    const Tensor absorbed = concat({matmul(q, up_key), rotary_query}, -1);
    const Tensor of_all = slice(stored, -1, 0, sizes_.rank);  // c of all positions
    if (is_linear_in_values(read))
      return out.forward(join_heads(
          matmul(read.forward(absorbed, stored, of_all, mask, nullptr, call.trace), transpose(up_value))));
    const Tensor keys = expand(stored, {stored.size(0), heads, stored.size(2), stored.size(3)});
    return out.forward(join_heads(
        read.forward(absorbed, keys, matmul(of_all, transpose(up_value)), mask, nullptr, call.trace)));
  }
  const Tensor k = matmul(c, transpose(up_key));
  rotary_key = expand(rotary_key, {k.size(0), heads, k.size(2), sizes_.rotary});
  const Tensor y = read.forward(concat({q, rotary_query}, -1), concat({k, rotary_key}, -1),
                                matmul(c, transpose(up_value)), mask, nullptr, call.trace);
  return out.forward(join_heads(y));
}

std::unique_ptr<DecodingState> LatentAttention::make_state(int64_t, int64_t capacity) const {
  return std::make_unique<KeyValueCache>(capacity);
}

std::string LatentAttention::explain(const MixerCall& call) const {
  return fmt::format("latent: a state stores {} + {} numbers per position; {}", sizes_.rank, sizes_.rotary,
                     read.explain(call.trace != nullptr, call.mask));
}

void LatentAttention::fields(Fields& f) {
  f("query", query);
  f("down", down);
  f("norm", norm);
  f("up_key", up_key);
  f("up_value", up_value);
  f("out", out);
  f("read", read);
}

LatentAttention LatentAttention::clone() {
  return clone_into([this] { return LatentAttention(options_, sizes_, read.name()); });
}

}  // namespace vitrine::nn
