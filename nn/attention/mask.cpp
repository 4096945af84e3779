#include "nn/attention/mask.h"

#include "core/creation.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace vitrine::nn {
namespace {

Tensor number(int64_t x, Device device) { return full({}, static_cast<double>(x), DType::int64, device); }

/// Positions as a column and as a row.
Tensor row(int64_t count, Device device, int64_t first = 0) {
  return reshape(
      arange(static_cast<double>(first), static_cast<double>(first + count), 1, DType::int64, device),
      {1, count});
}
Tensor column(int64_t count, Device device, int64_t first = 0) {
  return reshape(row(count, device, first), {count, 1});
}

/// The number of keys after its position that a query may see.
int64_t after(const AttentionMask& mask) {
  return mask.causal ? std::min<int64_t>(mask.right, 0) : mask.right;
}

}  // namespace

Tensor AttentionMask::visible(int64_t queries, int64_t keys, Device device) const {
  Tensor seen = allowed;
  const Tensor distance = row(keys, device) - column(queries, device, keys - queries);
  const auto hide = [&seen](const Tensor& rest) { seen = seen.defined() ? logical_and(seen, rest) : rest; };
  if (after(*this) < queries - 1) hide(less_equal(distance, number(after(*this), device)));
  if (left < keys - 1) {
    const Tensor near = greater_equal(distance, number(-left, device));
    hide(first > 0 ? logical_or(near, less(row(keys, device), number(first, device))) : near);
  }
  return seen;
}

AttentionMask AttentionMask::within(int64_t left, int64_t first, int64_t queries, int64_t keys,
                                    Device device) const {
  AttentionMask narrower = *this;
  if (this->left < AttentionForm::kUnlimited && this->first != first)
    narrower.allowed = visible(queries, keys, device);  // no window is both of these
  else
    left = std::min(left, this->left);
  narrower.left = left, narrower.first = first;
  return narrower;
}

Tensor AttentionMask::visible_keys(int64_t queries, int64_t keys, Device device) const {
  if (allowed.defined()) {
    const Tensor seen = visible(queries, keys, device);
    return sum(expand(seen, broadcast("attention", seen.shape(), {1, keys})), {-1}, KeepAxes::yes);
  }
  const Tensor position = column(queries, device, keys - queries);
  const auto at_most = [](int64_t distance, int64_t count) {
    return static_cast<double>(std::min(distance, count));
  };
  const Tensor begin = maximum(position - at_most(left, keys), 0),
               last = minimum(position + at_most(after(*this), queries), static_cast<double>(keys - 1));
  const Tensor near = maximum(last - begin + 1, 0);
  return first > 0 ? near + minimum(begin, static_cast<double>(std::min(first, keys))) : near;
}

AttentionMask AttentionMask::after_memory(int64_t memory, int64_t queries, int64_t keys,
                                          Device device) const {
  AttentionMask longer = *this;
  longer.left = AttentionForm::kUnlimited, longer.first = 0;
  const auto all_keys = [keys](const Tensor& x) {
    return expand(x, broadcast("attention", x.shape(), {1, keys}));
  };
  const auto before = [memory](const Tensor& x, const Tensor& each_row) {  // each_row [.., 1]
    Shape shape = x.shape();
    shape.back() = memory;
    return concat({expand(each_row, shape), x}, -1);
  };
  if (bias.defined()) longer.bias = before(all_keys(bias), zeros({1}, bias.dtype(), device));
  Tensor seen = visible(queries, keys, device);
  if (!seen.defined() && keys > 0) return longer;
  seen = all_keys(seen.defined() ? seen : zeros({1, 0}, DType::boolean, device));
  longer.allowed = before(seen, any(seen, {-1}, KeepAxes::yes));
  return longer;
}

AttentionMask with_lengths(AttentionMask mask, const Tensor& lengths, int64_t batch, int64_t keys) {
  if (!lengths.defined()) return mask;
  check(lengths.dtype() == DType::int64 && lengths.shape() == Shape{batch},
        "attention: lengths are {}, wanted int64 [{}]", describe(lengths), batch);
  const Tensor present = less(row(keys, lengths.device()), reshape(lengths, {lengths.numel(), 1, 1, 1}));
  mask.allowed = mask.allowed.defined() ? logical_and(mask.allowed, present) : present;
  return mask;
}

Tensor shared_keys(const AttentionMask& mask, int64_t keys, const std::string& who) {
  const char* const instead = "wanted `allowed` [B, 1, 1, Tk] for padding, or the base `standard`";
  check(!mask.bias.defined(), "{}: a bias of the scores has no place, because no score is computed; {}", who,
        instead);
  check(mask.left == AttentionForm::kUnlimited && (mask.causal || mask.right == AttentionForm::kUnlimited) &&
            mask.right >= 0,
        "{}: a window hides keys from some queries, and all queries read the same sums over keys; {}", who,
        instead);
  const Tensor& allowed = mask.allowed;
  if (!allowed.defined()) return {};
  Shape shape = allowed.shape();
  while (shape.rank() < 4) shape.insert(0, 1);
  check(
      shape[1] == 1 && shape[2] == 1,
      "{}: `allowed` is {} and may differ from query to query, and all queries read the same sums over keys; {}",
      who, allowed.shape(), instead);
  const Tensor whole = reshape(allowed, shape);
  if (whole.size(3) == 1) return expand(whole, {shape[0], 1, keys, 1});
  return transpose(slice(whole, 3, whole.size(3) - keys));
}

Tensor padding_mask(std::span<const int64_t> lengths, int64_t keys, Device device) {
  const auto batch = static_cast<int64_t>(lengths.size());
  for (size_t i = 0; i < lengths.size(); ++i)
    check(lengths[i] >= 0 && lengths[i] <= keys, "padding_mask: lengths[{}] is {}, wanted 0 to {}", i,
          lengths[i], keys);
  return less(reshape(row(keys, device), {1, 1, 1, keys}), index_tensor(lengths, {batch, 1, 1, 1}, device));
}

Tensor prefix_mask(int64_t prefix, int64_t time, Device device) {
  check(prefix >= 0 && time >= 0, "prefix_mask: prefix is {} and time {}, wanted numbers ≥ 0", prefix, time);
  return logical_or(less_equal(row(time, device), column(time, device)),
                    less(row(time, device), number(prefix, device)));
}

}  // namespace vitrine::nn
