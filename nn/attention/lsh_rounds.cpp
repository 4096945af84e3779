#include "nn/attention/lsh_rounds.h"

#include "core/creation.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/join.h"
#include "ops/reduce.h"
#include "ops/sort.h"
#include "ops/view.h"

namespace vitrine::nn {
namespace {

constexpr int64_t kHiddenBucket = int64_t{1} << 40;  // of padding, after all others

}  // namespace

Tensor lsh_buckets_with_padding(const Tensor& buckets, const Tensor& valid, int64_t filling) {
  const auto hidden = static_cast<double>(kHiddenBucket);
  const Tensor own = valid.defined() ? where(unsqueeze(valid, 1), buckets, hidden) : buckets;
  return pad(own, {0, 0, 0, 0}, {0, 0, 0, filling}, PadMode::constant, hidden);
}

LshRounds::LshRounds(const Tensor& buckets, int64_t chunk)
    : count(buckets.size(0)),
      batch(buckets.size(1)),
      heads(buckets.size(2)),
      time(buckets.size(3)),
      chunk(chunk),
      bucket_(buckets),
      order_(sort(buckets).indices),
      place_(sort(order_).indices) {}

Tensor LshRounds::to_positions(const Tensor& x) const {
  return take(reshape(x, {count, batch, heads, time, x.size(-1)}), place_);
}

Tensor LshRounds::in_chunks(const Tensor& x) const {
  return reshape(x, {count, batch, heads, time / chunk, chunk, x.size(-1)});
}

Tensor LshRounds::seen_by_chunk(const Tensor& x, double nothing) const {
  const Tensor own = in_chunks(x);
  const Tensor before = pad(slice(own, 3, 0, own.size(3) - 1), {0, 0, 0, 1, 0, 0}, {0, 0, 0, 0, 0, 0},
                            PadMode::constant, nothing);
  return concat({before, own}, 4);
}

Tensor LshRounds::positions() const { return unsqueeze(order_, -1); }
Tensor LshRounds::buckets() const { return to_slots(unsqueeze(bucket_, -1)); }

/// Of each slot, a number of the bucket and the chunk that its position has in a round. The same
/// bucket in the next chunk has the next number; no other pair of bucket and chunk has it.
Tensor LshRounds::bucket_and_chunk(int64_t round) const {
  const int64_t chunks = time / chunk;
  const Tensor numbers =
      repeat(arange(0, static_cast<double>(chunks), 1, DType::int64, order_.device()), chunk, 0);
  const Tensor chunk_of = index_select(numbers, 0, select(place_, 0, round));
  return to_slots(unsqueeze(select(bucket_, 0, round) * (chunks + 1) + chunk_of, -1));
}

Tensor LshRounds::take(const Tensor& x, const Tensor& index) const {
  Shape groups = {x.rank() == 5 ? count : 1, batch, heads, 1};
  const auto rows = static_cast<double>(numel(groups) * time);
  const Tensor first = arange(0, rows, static_cast<double>(time), DType::int64, index.device());
  return index_select(reshape(x, {-1, x.size(-1)}), 0, index + reshape(first, groups));
}

Tensor LshRounds::visible_pairs(const Tensor& keys, bool causal) const {
  const Tensor queries = in_chunks(positions()), own = in_chunks(buckets());
  const Tensor valid = less(own, full_like(own, static_cast<double>(kHiddenBucket)));
  const Tensor together = logical_and(equal(own, transpose(seen_by_chunk(buckets(), -1))), valid);
  const Tensor shown = logical_and(together, causal ? less(keys, queries) : not_equal(keys, queries));
  const Tensor accompanied = any(to_positions(any(shown, {-1}, KeepAxes::yes)), {0});
  const Tensor alone = in_chunks(to_slots(logical_not(accompanied)));
  return logical_or(shown, logical_and(logical_and(equal(keys, queries), valid), alone));
}

Tensor LshRounds::shown_before() const {
  const Tensor own = reshape(arange(0, static_cast<double>(count), 1, DType::int64, order_.device()),
                             {count, 1, 1, 1, 1, 1});
  Tensor before;
  for (int64_t round = 0; round + 1 < count; ++round) {
    const Tensor number = bucket_and_chunk(round), queries = in_chunks(number);
    const auto equals = [&](const Tensor& keys) {
      return equal(queries, transpose(seen_by_chunk(keys, -1)));
    };
    const Tensor later = logical_and(logical_or(equals(number), equals(number + 1)),
                                     greater(own, full_like(own, static_cast<double>(round))));
    before = before.defined() ? logical_or(before, later) : later;
  }
  return before;
}

}  // namespace vitrine::nn
