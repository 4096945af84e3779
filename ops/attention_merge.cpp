#include "ops/attention_merge.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/creation.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/softmax.h"
#include "ops/view.h"

namespace vitrine::detail {
namespace {

/// Swaps heads and positions. Attention returns y in the memory layout [B, T, H, Dv], which results
/// keep when they are computed in that order.
Tensor by_position(const Tensor& x) { return transpose(x, 1, 2); }

/// The keys [begin, end) of a bias or mask that is broadcast to [B, H, Tq, Tk].
Tensor of_keys(const Tensor& x, int64_t begin, int64_t end) {
  return !x.defined() || x.rank() == 0 || x.size(-1) == 1 ? x : slice(x, -1, begin, end);
}

/// The options for the first keys alone. Their positions are not those that a form of so few keys
/// has, so conditions and slopes become tensors [.., Tq, first].
AttentionOptions outside_window(const AttentionOptions& o, int64_t first, const Tensor& q, int64_t keys) {
  const Device device = q.device();
  const auto positions = [device](int64_t begin, int64_t end) {
    return arange(static_cast<double>(begin), static_cast<double>(end), 1, DType::int64, device);
  };
  const Tensor distance = positions(0, first) - unsqueeze(positions(keys - q.size(2), keys), -1);
  AttentionOptions far = o;
  far.causal = false, far.first = 0;  // what is before the window is before the query
  far.left = far.right = AttentionForm::kUnlimited;
  const Tensor outside = less(distance, full({}, static_cast<double>(-o.left), DType::int64, device));
  far.allowed = o.allowed.defined() ? logical_and(of_keys(o.allowed, 0, first), outside) : outside;
  far.bias = of_keys(o.bias, 0, first);
  if (o.slopes.defined()) {
    const DType type = accumulation_dtype(q.dtype());
    const Tensor alibi = neg(cast(reshape(detach(o.slopes), {-1, 1, 1}), type) * cast(abs(distance), type));
    far.bias = far.bias.defined() ? cast(far.bias, type) + alibi : alibi;
    far.slopes = {};
  }
  return far;
}

}  // namespace

Tensor attention_with_sink(const Tensor& q, const Tensor& k, const Tensor& v, AttentionOptions options) {
  const Tensor sink = std::exchange(options.sink, Tensor());
  const auto [y, log_sum] = attention_with_log_sum_exp(q, k, v, options);
  // A query that sees no key reads 0, whatever the sink.
  const Tensor none = full({}, -std::numeric_limits<double>::infinity(), log_sum.dtype(), q.device()),
               alive = not_equal(log_sum, none);
  const Tensor own = where(alive, log_sum, 0.0) - cast(reshape(sink, {-1, 1}), log_sum.dtype());
  const Tensor share = where(alive, sigmoid(own), 0.0);
  return by_position(by_position(y) * unsqueeze(by_position(cast(share, y.dtype())), -1));
}

bool shows_first_keys(const AttentionForm& form, int64_t keys) {
  return form.first > 0 && form.left < keys - 1;
}

AttentionResult attention_with_first_keys(const Tensor& q, const Tensor& k, const Tensor& v,
                                          const AttentionOptions& o) {
  // LASER's results are merged by their exponentials, which the rounding to 16 bits would change.
  const DType read = o.read == AttentionRead::mean ? q.dtype() : accumulation_dtype(q.dtype());
  const auto attend = [&](int64_t begin, int64_t end, const AttentionOptions& part) {
    const auto rows = [&](const Tensor& x) { return cast(slice(x, 2, begin, end), read); };
    return attention_with_log_sum_exp(cast(q, read), rows(k), rows(v), part);
  };
  const int64_t keys = k.size(2), first = std::min(o.first, keys);
  // Keys before the window of the first query need not be read.
  const int64_t start = std::max<int64_t>(0, keys - q.size(2) - o.left);
  AttentionOptions window = o;
  window.first = 0;
  window.allowed = of_keys(o.allowed, start, keys), window.bias = of_keys(o.bias, start, keys);
  const auto near = attend(start, keys, window);
  const auto far = attend(0, first, outside_window(o, first, q, keys));
  const Tensor both = stack({near.log_sum_exp, far.log_sum_exp}), log_sum = log_sum_exp(both, {0});
  // [2, B, T, H, 1]: log-sum-exps in the layout of y, which is read in the wide dtype.
  const auto as_rows = [](const Tensor& x) { return unsqueeze(by_position(x), -1); };
  const DType type = both.dtype();
  const Tensor y_near = cast(by_position(near.y), type), y_far = cast(by_position(far.y), type);
  // A query that sees no key gives 0.
  const Tensor none = full({}, -std::numeric_limits<double>::infinity(), type, q.device());
  const Tensor alive = not_equal(log_sum, none), shift = where(alive, log_sum, 0.0);
  Tensor y;
  if (o.read == AttentionRead::mean) {
    const Tensor weights = exp(both - shift);
    y = as_rows(select(weights, 0, 0)) * y_near + as_rows(select(weights, 0, 1)) * y_far;
  } else {
    const Tensor total =
        log_sum_exp(stack({y_near + as_rows(near.log_sum_exp), y_far + as_rows(far.log_sum_exp)}), {0});
    y = where(as_rows(alive), total - as_rows(shift), 0.0);
  }
  return {by_position(cast(y, q.dtype())), log_sum};
}

}  // namespace vitrine::detail
