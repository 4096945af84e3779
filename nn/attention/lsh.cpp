#include "nn/attention/lsh.h"

#include <algorithm>
#include <cmath>

#include "core/creation.h"
#include "core/random.h"
#include "core/record.h"
#include "nn/attention/cache.h"
#include "nn/attention/lsh_rounds.h"
#include "nn/layers/heads.h"
#include "ops/attention.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/join.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/view.h"

namespace vitrine::nn {

Tensor lsh_buckets(const Tensor& qk, const Tensor& rotations) {
  check(qk.rank() == 4 && rotations.rank() == 3 && rotations.size(1) == qk.size(3),
        "lsh_buckets: qk is {} and the rotations {}, wanted [B, H, T, D] and [R, D, b/2]", qk.shape(),
        rotations.shape());
  const DType type = accumulation_dtype(qk.dtype());
  const Tensor rotated =
      matmul(unsqueeze(cast(detach(qk), type), 0), unsqueeze(unsqueeze(cast(rotations, type), 1), 1));
  return argmax(concat({rotated, neg(rotated)}, -1), -1);
}

namespace {

void check_operands(const Tensor& qk, const Tensor& v, const Tensor& buckets, const LshOptions& o) {
  check(qk.rank() == 4 && v.rank() == 4 && qk.size(0) == v.size(0) && qk.size(1) == v.size(1) &&
            qk.size(2) == v.size(2),
        "lsh_attention: qk is {} and v {}, wanted [B, H, T, D] and [B, H, T, Dv]", qk.shape(), v.shape());
  check(buckets.rank() == 4 && buckets.dtype() == DType::int64 && buckets.size(1) == qk.size(0) &&
            buckets.size(2) == qk.size(1) && buckets.size(3) == qk.size(2) && o.chunk > 0,
        "lsh_attention: the buckets are {} and a chunk {}, wanted int64 [R, {}, {}, {}] and a size above 0",
        describe(buckets), o.chunk, qk.size(0), qk.size(1), qk.size(2));
  const Shape rows = {qk.size(0), qk.size(2)};
  check(!o.valid.defined() || (o.valid.shape() == rows && o.valid.dtype() == DType::boolean),
        "lsh_attention: valid is {}, wanted bool {}", describe(o.valid), rows);
}

/// What a read-out reads of the values that each chunk sees, [B, H, N, 1, Dv]: each round by
/// itself, then the rounds by their sums of weights. `chunks`: the scores of a softmax, or the
/// weights of another normalizer, in the order of the slots. A softmax is shared out by scores: its
/// rounds by their log Σ e^score, because a sum of its weights may be too small to divide by.
Tensor read_rounds(const LshRounds& rounds, const ReadOut& read_out, const Weighting& chunks,
                   const Tensor& seen) {
  const auto rounds_last = [&](const Tensor& x) { return permute(rounds.to_positions(x), {1, 2, 3, 0, 4}); };
  // One number per round → [B, H, N, 1, R].
  const auto of_rounds = [&](const Tensor& x) { return transpose(rounds_last(x)); };
  const auto& [weights, scores, visible, empty_rows] = chunks;
  if (!scores.defined()) {
    const Tensor reads = rounds_last(read_shares(read_out, weights, visible, seen));
    const Tensor sums = of_rounds(sum(weights, {-1}, KeepAxes::yes));
    return read_shares(read_out, sums, greater(sums, zeros({}, sums.dtype(), sums.device())), reads);
  }
  const Tensor reads = rounds_last(read_out.read({softmax(scores), scores, visible, empty_rows}, seen));
  const Tensor sums = of_rounds(log_sum_exp(scores, {-1}, KeepAxes::yes));
  return read_out.read({softmax(sums), sums, is_finite(detach(sums)), empty_rows}, reads);
}

}  // namespace

Tensor lsh_attention(const Tensor& qk0, const Tensor& v0, const Tensor& buckets, const LshOptions& o,
                     Tensor* weights) {
  check_operands(qk0, v0, buckets, o);
  const int64_t batch = qk0.size(0), heads = qk0.size(1), time = qk0.size(2);
  if (batch * heads * time == 0) {
    if (weights) *weights = zeros({batch, heads, time, time}, accumulation_dtype(qk0.dtype()), v0.device());
    return v0;
  }
  const DType type = accumulation_dtype(qk0.dtype());
  const int64_t chunk = std::min(o.chunk, time), filling = (chunk - time % chunk) % chunk;
  const LshRounds rounds(lsh_buckets_with_padding(buckets, o.valid, filling), chunk);
  const auto slots_of = [&](const Tensor& x) {
    return rounds.to_slots(pad(cast(x, type), {0, 0, 0, 0}, {0, 0, filling, 0}));
  };
  const Tensor keys = transpose(rounds.seen_by_chunk(rounds.positions(), -1));
  Tensor scores = matmul(rounds.in_chunks(slots_of(qk0)),
                         transpose(rounds.seen_by_chunk(slots_of(l2_normalize(cast(qk0, type))), 0))) /
                  std::sqrt(static_cast<double>(qk0.size(3)));
  Tensor visible = rounds.visible_pairs(keys, o.causal);
  if (!o.duplicates && rounds.count > 1) visible = logical_and(visible, logical_not(rounds.shown_before()));
  scores = where(visible, scores, -INFINITY);

  // For each position, what all rounds show is one row of the weights: [B, H, N, R·2·chunk].
  const auto side_by_side = [&](const Tensor& x) {
    return reshape(permute(rounds.to_positions(x), {1, 2, 3, 0, 4}), {batch, heads, rounds.time, -1});
  };
  const Tensor all = side_by_side(scores);
  const Weighting row = o.parts ? o.parts->normalize(all) : Weighting{.weights = softmax(all)};
  const Tensor seen = rounds.seen_by_chunk(slots_of(v0), 0);
  const ReadOut* const read_out = o.parts ? o.parts->read_out() : nullptr;
  // A read-out of a softmax reads scores, any other reader the weights.
  Weighting chunks{.weights = {}, .visible = visible, .empty_rows = true};
  if (read_out && row.scores.defined()) {
    chunks.scores = scores;
  } else {
    const Tensor by_round =
        permute(reshape(row.weights, {batch, heads, rounds.time, rounds.count, 2 * chunk}), {3, 0, 1, 2, 4});
    chunks.weights = rounds.in_chunks(rounds.to_slots(by_round));
  }
  const Tensor y = read_out ? squeeze(read_rounds(rounds, *read_out, chunks, seen), {-2})
                            : sum(rounds.to_positions(matmul(chunks.weights, seen)), {0});
  if (weights) {
    const Tensor columns = maximum(expand(keys, scores.shape()), 0);  // a missing chunk weighs 0
    const Tensor none = zeros({batch, heads, rounds.time, rounds.time}, type, qk0.device());
    const Tensor dense = scatter_add(none, 3, side_by_side(columns), detach(row.weights));
    *weights = slice(slice(dense, 2, 0, time), 3, 0, time);
  }
  return cast(slice(y, 2, 0, time), v0.dtype());
}

namespace {

const MixerOptions& checked(const MixerOptions& o, const AttentionName& parts) {
  check_heads("lsh", o.width, o.heads, o.key_heads);
  check_stages("lsh", parts, LshAttention::stages());
  return o;
}

/// The number of buckets, even.
int64_t buckets_of(const LshSizes& s, int64_t context) {
  check(s.rounds > 0 && s.chunk > 0 && s.buckets >= 0 && s.buckets % 2 == 0,
        "lsh: {} rounds, a chunk of {} and {} buckets, wanted numbers above 0, the last one even", s.rounds,
        s.chunk, s.buckets);
  return s.buckets > 0 ? s.buckets : 2 * ((context + 2 * s.chunk - 1) / (2 * s.chunk));
}

/// bool [B, T]: what a mask says of each key; undefined if it hides none.
Tensor valid_keys(const AttentionMask& mask, int64_t batch, int64_t time) {
  check(!mask.bias.defined() && mask.left == AttentionForm::kUnlimited &&
            mask.right == AttentionForm::kUnlimited,
        "lsh: the hashes choose the pairs of positions, so that a bias or a window has no place");
  if (!mask.allowed.defined()) return {};
  const Tensor& own = mask.allowed;
  check(own.rank() == 4 && own.size(1) == 1 && own.size(2) == 1,
        "lsh: the mask is {}, wanted one of padding, [B, 1, 1, T]: the hashes choose the pairs of positions",
        own.shape());
  return reshape(expand(own, {batch, 1, 1, time}), {batch, time});
}

}  // namespace

const std::vector<Stage>& LshAttention::stages() {
  static const std::vector<Stage> stages = {Stage::normalize, Stage::read};
  return stages;
}

LshAttention::LshAttention(const MixerOptions& o, const LshSizes& sizes, const AttentionName& parts)
    : query_key(checked(o, parts).width, o.width, o.bias.query),
      value(o.width, o.width / o.heads * (o.key_heads ? o.key_heads : o.heads), o.bias.value),
      out(o.width, o.width, o.bias.out, o.out_deviation),
      rotations(randn({sizes.rounds, o.width / o.heads, buckets_of(sizes, o.context) / 2})),
      parts(parts, o.heads, o.width / o.heads, o.context),
      options_(o),
      sizes_(sizes) {}

Tensor LshAttention::forward(const Tensor& x, const MixerCall& call) const {
  check(x.rank() == 3 && x.size(2) == options_.width, "lsh: x is {}, wanted [B, T, {}]", x.shape(),
        options_.width);
  check(!call.source.defined(),
        "lsh: queries and keys are one projection of x, so that a source has no place");
  const ModuleScope scope(kind());
  Tensor qk = split_heads(query_key.forward(x), options_.heads), v = value.forward(x);
  v = define::repeat_key_heads(split_heads(v, v.size(2) * options_.heads / options_.width), options_.heads);
  auto* const cache = dynamic_cast<KeyValueCache*>(call.state);
  check(call.state == nullptr || cache != nullptr,
        "lsh: the state is not one of lsh; wanted what make_state gave");
  if (cache) {
    const auto all = cache->append(qk, v);
    qk = all.first, v = all.second;
  }
  const int64_t time = qk.size(2);
  const AttentionMask mask = with_lengths(call.mask, call.lengths, x.size(0), time);
  const LshOptions o{.chunk = sizes_.chunk,
                     .causal = mask.causal,
                     .valid = valid_keys(mask, x.size(0), time),
                     .parts = &parts};
  Tensor weights;
  const Tensor y = lsh_attention(qk, v, lsh_buckets(qk, rotations), o, call.trace ? &weights : nullptr);
  const auto of_queries = [&](const Tensor& all) { return slice(all, 2, time - x.size(1)); };
  if (call.trace) {
    *call.trace = {};
    call.trace->q = of_queries(qk), call.trace->k = qk, call.trace->v = v;
    call.trace->weights = of_queries(weights);
    call.trace->weight_slope = parts.weight_slope(call.trace->weights);
    call.trace->scale = 1 / std::sqrt(static_cast<double>(qk.size(3)));
    call.trace->visible = mask.visible(x.size(1), time, x.device());
    for (const auto& part : parts.parts)
      call.trace->distribution = call.trace->distribution && part->traits().distribution;
  }
  return out.forward(join_heads(of_queries(y)));
}

std::unique_ptr<DecodingState> LshAttention::make_state(int64_t, int64_t capacity) const {
  return std::make_unique<KeyValueCache>(capacity);
}

std::string LshAttention::explain(const MixerCall&) const {
  return fmt::format(
      "lsh: {} rounds of {} buckets; in each a query sees its bucket in two chunks of {} positions",
      sizes_.rounds, 2 * rotations.size(2), sizes_.chunk);
}

void LshAttention::fields(Fields& f) {
  f("query_key", query_key);
  f("value", value);
  f("out", out);
  f("rotations", rotations);
  f("parts", parts);
}

LshAttention LshAttention::clone() {
  return clone_into([this] { return LshAttention(options_, sizes_, parts.name()); });
}

}  // namespace vitrine::nn
