#include "nn/attention/feature_read.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/creation.h"
#include "core/gpu/capture.h"
#include "core/recompute.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/linear_scan.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/view.h"

namespace vitrine::nn {
namespace {

/// Weights that are the softmax of scores. The scores of hidden keys are −∞.
Weighting softmax_of(const Tensor& scores, const Tensor& visible) {
  return {softmax(scores), scores, visible, true};
}

/// log Σ over the last axis.
Tensor log_total(const Tensor& x) { return log_sum_exp(x, {-1}, KeepAxes::yes); }

Tensor hidden(const Tensor& scores, const Tensor& visible) {
  return visible.defined() ? where(visible, scores, -INFINITY) : scores;
}

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
  return {slice(x.log_mass, 2, start, stop, 2), slice(x.values, 2, start, stop, 2)};
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
  const int64_t n = blocks.log_mass.size(2), pairs = n / 2;
  if (n == 1) return first;
  const FeatureSums even = every_other(blocks, 0, 2 * pairs), odd = every_other(blocks, 1, 2 * pairs);
  FeatureSums halves = joined(even, odd, read_out);
  if (n % 2 == 1)
    halves = {concat({halves.log_mass, slice(blocks.log_mass, 2, n - 1)}, 2),
              concat({halves.values, slice(blocks.values, 2, n - 1)}, 2)};
  const FeatureSums at_even = sums_before(halves, first, read_out);
  const FeatureSums at_odd =
      joined({slice(at_even.log_mass, 2, 0, pairs), slice(at_even.values, 2, 0, pairs)}, even, read_out);
  return {interleaved(at_even.log_mass, at_odd.log_mass), interleaved(at_even.values, at_odd.values)};
}

FeatureSums or_none(const FeatureSums& sums, const FeatureKeys& keys) {
  if (sums.log_mass.defined()) return sums;
  const Tensor& f = keys.features;
  const Shape mass{f.size(0), f.size(1), f.size(3), 1};
  Shape values = mass;
  values.back() = keys.values.size(3);
  return {full(mass, -INFINITY, f.dtype(), f.device()), zeros(values, f.dtype(), f.device())};
}

/// A value of 1 in one more channel, which sums the weights.
Tensor with_one(const Tensor& values) {
  Shape one = values.shape();
  one.back() = 1;
  return concat({values, ones(one, values.dtype(), values.device())}, -1);
}

/// The largest of each row, by which it is scaled.
Tensor top_of(const Tensor& x) { return max(detach(x), {-1}, KeepAxes::yes); }

}  // namespace

// The weighted mean -------------------------------------------------------------------------------
MeanRead read_mean(const Tensor& queries, const FeatureKeys& given, const Tensor& before, bool causal) {
  const int64_t size = given.values.size(-1);
  const auto mean = [&](const Tensor& sums) {
    return share_of(slice(sums, -1, 0, size), slice(sums, -1, size), smallest_total(sums.dtype()));
  };
  if (!causal) {
    Tensor sum = matmul(transpose(given.features), with_one(given.values));
    if (before.defined()) sum = before + sum;
    return {mean(matmul(queries, sum)), sum};
  }
  const int64_t time = std::max(queries.size(2), given.features.size(2));
  const FeatureKeys keys = padded(given, time);
  const LinearScanStates s =
      linear_scan(padded(queries, time), keys.features, with_one(keys.values), {.state = before});
  return {slice(mean(s.o), 2, time - queries.size(2)), s.state};
}

Tensor mean_weights(const Tensor& queries, const FeatureKeys& keys, const Tensor& before,
                    const Tensor& visible) {
  Tensor products = matmul(queries, transpose(keys.features));
  if (visible.defined()) products = where(visible, products, 0.0);
  Tensor total = sum(products, {-1}, KeepAxes::yes);
  if (before.defined()) total = total + matmul(queries, slice(before, -1, before.size(-1) - 1));
  return share_of(products, total, smallest_total(total.dtype()));
}

// Any other read-out ------------------------------------------------------------------------------
Tensor log_products(const Tensor& queries, const Tensor& keys, const Tensor& visible) {
  const Tensor top_q = top_of(queries), top_k = top_of(keys);
  const Tensor products = matmul(exp(queries - top_q), transpose(exp(keys - top_k)));
  const Tensor seen = visible.defined() ? where(visible, products, 1.0) : products;
  if (!queries.device().is_cpu())
    vitrine::detail::refuse_in_capture("a read of features by logarithms, which measures their products");
  // A product is at most F. One that is tiny has lost digits or is 0.
  if (seen.numel() == 0 || min(detach(seen)).item() > smallest_total(seen.dtype()))
    return hidden(log(seen) + top_q + transpose(top_k), visible);
  // Sums over [.., rows, Tk, F], which are computed again in the backward: a few rows at a time.
  constexpr int64_t kRows = 8;
  std::vector<Tensor> parts;
  for (int64_t i = 0; i < queries.size(-2); i += kRows)
    parts.push_back(
        vitrine::recompute([rows = slice(queries, -2, i, std::min(i + kRows, queries.size(-2))), keys] {
          return log_sum_exp(unsqueeze(rows, -2) + unsqueeze(keys, -3), {-1});
        }));
  return hidden(concat(parts, -2), visible);
}

FeatureSums sums_of(const FeatureKeys& keys, const ReadOut& read_out) {
  if (keys.features.size(-2) == 0) return or_none({}, keys);
  const Tensor visible = keys.seen.defined() ? transpose(keys.seen) : Tensor();
  const Tensor scores = hidden(transpose(keys.features), visible);
  return {log_total(scores), read_out.read(softmax_of(scores, visible), keys.values)};
}

FeatureSums joined(const FeatureSums& x, const FeatureSums& y, const ReadOut& read_out) {
  const Tensor masses = concat({x.log_mass, y.log_mass}, -1);  // [.., F, 2]
  const Tensor scores = unsqueeze(masses, -2);
  const Tensor values = stack({x.values, y.values}, x.values.rank() - 1);
  return {log_total(masses), squeeze(read_out.read(softmax_of(scores, is_finite(scores)), values), {-2})};
}

Tensor read_sums(const Tensor& queries, const FeatureSums& sums, const ReadOut& read_out) {
  const Tensor mass = transpose(sums.log_mass);
  return read_out.read(softmax_of(queries + mass, is_finite(mass)), sums.values);
}

Tensor sum_weights(const Tensor& queries, const FeatureKeys& keys, const FeatureSums& before,
                   const Tensor& visible) {
  const Tensor scores = log_products(queries, keys.features, visible);
  if (!before.log_mass.defined()) return softmax(scores);
  const Tensor earlier = log_total(queries + transpose(before.log_mass));
  return slice(softmax(concat({earlier, scores}, -1)), -1, 1);
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
      sums_before(blocks, {unsqueeze(first.log_mass, 2), unsqueeze(first.values, 2)}, read_out);
  // One read of the values of the sums and of the block's own keys.
  const Tensor mass = transpose(before.log_mass);
  const Tensor sees = tril(ones({size, size}, DType::boolean, q.device())),
               shown = keys.seen.defined() ? logical_and(sees, transpose(keys.seen)) : sees;
  const Tensor own = log_products(q, keys.features, shown);
  const Tensor visible = concat({expand(is_finite(mass), q.shape()), expand(shown, own.shape())}, -1);
  const Tensor y = read_out.read(softmax_of(concat({q + mass, own}, -1), visible),
                                 concat({before.values, keys.values}, -2));
  const Shape plain{queries.size(0), queries.size(1), time, y.size(-1)};
  const auto last = [](const FeatureSums& x) -> FeatureSums {
    return {select(x.log_mass, 2, -1), select(x.values, 2, -1)};
  };
  return {slice(reshape(y, plain), 2, time - queries.size(2)), joined(last(before), last(blocks), read_out)};
}

}  // namespace vitrine::nn
