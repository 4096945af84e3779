#include "nn/attention/feature_read.h"

#include <algorithm>
#include <utility>

#include "core/creation.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/linear_scan.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace vitrine::nn {
namespace {

Tensor positive(const Tensor& x) { return greater(x, zeros({}, x.dtype(), x.device())); }

Tensor sum_last(const Tensor& x) { return sum(x, {-1}, KeepAxes::yes); }

/// [.., T, C] → [.., time, C]: hidden positions before the first.
Tensor padded(const Tensor& x, int64_t time) {
  std::vector<int64_t> before(static_cast<size_t>(x.rank()), 0), after = before;
  before[before.size() - 2] = time - x.size(-2);
  return x.size(-2) == time ? x : pad(x, before, after);
}

FeatureKeys padded(const FeatureKeys& keys, int64_t time) {
  if (keys.features.size(-2) == time) return keys;
  const int64_t own = keys.features.size(-2), rest = time - own;
  const Device device = keys.features.device();
  Tensor seen = concat({zeros({rest, 1}, DType::boolean, device), ones({own, 1}, DType::boolean, device)}, 0);
  if (keys.seen.defined()) {
    Shape shape = keys.seen.shape();
    shape[shape.rank() - 2] = rest;
    seen = concat({zeros(shape, DType::boolean, device), keys.seen}, -2);
  }
  return {padded(keys.features, time), padded(keys.values, time), seen};
}

/// [B, H, N·block, C] → [B, H, N, block, C].
Tensor in_blocks(const Tensor& x, int64_t block) {
  if (!x.defined()) return x;
  Shape shape = x.shape();
  shape[shape.rank() - 2] = block;
  shape.insert(shape.rank() - 2, x.size(-2) / block);
  return reshape(x, shape);
}

FeatureSums every_other(const FeatureSums& x, int64_t start, int64_t stop) {
  return {slice(x.mass, 2, start, stop, 2), slice(x.values, 2, start, stop, 2)};
}

/// x₀ y₀ x₁ y₁ …, with one more of x at the end if there is one.
Tensor interleaved(const Tensor& x, const Tensor& y) {
  const int64_t pairs = y.size(2);
  Shape shape = y.shape();
  shape[2] = 2 * pairs;
  const Tensor both = reshape(stack({slice(x, 2, 0, pairs), y}, 3), shape);
  return x.size(2) == pairs ? both : concat({both, slice(x, 2, pairs)}, 2);
}

/// For each of the N blocks [B, H, N, F, ..], the sums `first` [B, H, 1, F, ..] and those of the
/// blocks before it.
FeatureSums sums_before(const FeatureSums& blocks, const FeatureSums& first, const ReadOut& read_out) {
  const int64_t n = blocks.mass.size(2), pairs = n / 2;
  if (n == 1) return first;
  const FeatureSums even = every_other(blocks, 0, 2 * pairs), odd = every_other(blocks, 1, 2 * pairs);
  FeatureSums halves = joined(even, odd, read_out);
  if (n % 2 == 1)
    halves = {concat({halves.mass, slice(blocks.mass, 2, n - 1)}, 2),
              concat({halves.values, slice(blocks.values, 2, n - 1)}, 2)};
  const FeatureSums at_even = sums_before(halves, first, read_out);
  const FeatureSums at_odd =
      joined({slice(at_even.mass, 2, 0, pairs), slice(at_even.values, 2, 0, pairs)}, even, read_out);
  return {interleaved(at_even.mass, at_odd.mass), interleaved(at_even.values, at_odd.values)};
}

FeatureSums or_none(const FeatureSums& sums, const FeatureKeys& keys) {
  if (sums.mass.defined()) return sums;
  const Tensor& f = keys.features;
  const Shape mass{f.size(0), f.size(1), f.size(3), 1};
  Shape values = mass;
  values.back() = keys.values.size(3);
  return {zeros(mass, f.dtype(), f.device()), zeros(values, f.dtype(), f.device())};
}

}  // namespace

FeatureSums sums_of(const FeatureKeys& keys, const ReadOut& read_out) {
  const Tensor weights = transpose(keys.features);
  return {sum_last(weights),
          read_shares(read_out, weights, keys.seen.defined() ? transpose(keys.seen) : Tensor(), keys.values)};
}

FeatureSums joined(const FeatureSums& x, const FeatureSums& y, const ReadOut& read_out) {
  const Tensor weights = unsqueeze(concat({x.mass, y.mass}, -1), -2);  // [.., F, 1, 2]
  const Tensor values = stack({x.values, y.values}, x.values.rank() - 1);
  return {x.mass + y.mass, squeeze(read_shares(read_out, weights, positive(weights), values), {-2})};
}

Tensor read_sums(const Tensor& queries, const FeatureSums& sums, const ReadOut& read_out) {
  const Tensor mass = transpose(sums.mass);
  return read_shares(read_out, queries * mass, positive(mass), sums.values, smallest_total(queries.dtype()));
}

CausalRead causal_read(const Tensor& queries, const FeatureKeys& given, const FeatureSums& earlier,
                       const ReadOut& read_out, int64_t block) {
  const int64_t longest = std::max({queries.size(2), given.features.size(2), int64_t{1}}),
                size = std::min(block, longest), time = (longest + size - 1) / size * size;
  const FeatureKeys whole = padded(given, time);
  const FeatureSums first = or_none(earlier, given);
  const FeatureKeys keys{in_blocks(whole.features, size), in_blocks(whole.values, size),
                         in_blocks(whole.seen, size)};
  const Tensor q = in_blocks(padded(queries, time), size);
  const FeatureSums blocks = sums_of(keys, read_out);
  const FeatureSums before =
      sums_before(blocks, {unsqueeze(first.mass, 2), unsqueeze(first.values, 2)}, read_out);
  // One read of the values of the sums and of the block's own keys.
  const Tensor mass = transpose(before.mass), sees = tril(ones({size, size}, DType::boolean, q.device()));
  const Tensor own = where(sees, matmul(q, transpose(keys.features)), 0.0);
  Shape by_feature = q.shape(), by_key = own.shape();
  const Tensor visible =
      concat({expand(positive(mass), by_feature),
              expand(keys.seen.defined() ? logical_and(sees, transpose(keys.seen)) : sees, by_key)},
             -1);
  const Tensor y = read_shares(read_out, concat({q * mass, own}, -1), visible,
                               concat({before.values, keys.values}, -2), smallest_total(q.dtype()));
  const Shape plain{queries.size(0), queries.size(1), time, y.size(-1)};
  const auto last = [](const Tensor& x) { return select(x, 2, -1); };
  return {
      slice(reshape(y, plain), 2, time - queries.size(2)),
      joined({last(before.mass), last(before.values)}, {last(blocks.mass), last(blocks.values)}, read_out)};
}

CausalRead causal_mean(const Tensor& queries, const FeatureKeys& given, const FeatureSums& earlier) {
  const int64_t time = std::max(queries.size(2), given.features.size(2)), size = given.values.size(3);
  const FeatureKeys keys = padded(given, time);
  const FeatureSums first = or_none(earlier, given);
  Shape one = keys.values.shape();
  one.back() = 1;
  // A value of 1 in one more channel sums the weights.
  const Tensor values = concat({keys.values, ones(one, keys.values.dtype(), keys.values.device())}, -1);
  const LinearScanStates s = linear_scan(padded(queries, time), keys.features, values,
                                         {.state = concat({first.values * first.mass, first.mass}, -1)});
  const auto mean = [&](const Tensor& x, double smallest = 0) {
    return share_of(slice(x, -1, 0, size), slice(x, -1, size), smallest);
  };
  const Tensor y = mean(s.o, smallest_total(s.o.dtype()));
  return {slice(y, 2, time - queries.size(2)), {slice(s.state, -1, size), mean(s.state)}};
}

}  // namespace vitrine::nn
