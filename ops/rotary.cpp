#include "ops/rotary.h"

#include <algorithm>

#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/kernels.h"
#include "ops/operands.h"
#include "ops/view.h"

namespace vitrine {

Tensor define::rotary(const Tensor& x, const Tensor& cosine, const Tensor& sine, bool interleaved) {
  const DType dtype = accumulation_dtype(x.dtype());
  const Tensor c = cast(cosine, dtype), s = cast(sine, dtype);
  const int64_t n = c.size(-1), size = 2 * n;
  const Tensor turned = cast(slice(x, -1, 0, size), dtype);
  Tensor y;
  if (interleaved) {
    Shape pairs = turned.shape();
    pairs.back() = n;
    pairs.push_back(2);
    const Tensor p = reshape(turned, pairs), low = select(p, -1, 0), high = select(p, -1, 1);
    y = reshape(stack({low * c - high * s, high * c + low * s}, -1), turned.shape());
  } else {
    const Tensor low = slice(turned, -1, 0, n), high = slice(turned, -1, n);
    y = concat({low * c - high * s, high * c + low * s}, -1);
  }
  y = cast(y, x.dtype());
  return size == x.size(-1) ? y : concat({y, slice(x, -1, size)}, -1);
}

namespace {

void check_rotary(const Tensor& x, const Tensor& cosine, const Tensor& sine) {
  check_floating("rotary", "x", x);
  check(cosine.rank() >= 1 && cosine.size(-1) >= 1, "rotary: cosine is {}, wanted [.., pairs of channels]",
        cosine.shape());
  const int64_t n = cosine.size(-1);
  check(x.rank() >= 1 && 2 * n <= x.size(-1), "rotary: {} pairs of channels are more than x {} has", n,
        x.shape());
  Shape pairs = x.shape();
  pairs.back() = n;
  for (const Tensor& table : {cosine, sine}) {
    check_floating("rotary", "a table of angles", table);
    check(table.rank() >= 1 && table.size(-1) == n && broadcast("rotary", table.shape(), pairs) == pairs,
          "rotary: a table of angles is {}, wanted {} or what broadcasts to it, for x {}", table.shape(),
          pairs, x.shape());
  }
}

/// The table as the kernel requires it, in the dtype in which x is computed.
Tensor table_for(const Tensor& x, const Tensor& table) {
  const DType dtype = accumulation_dtype(x.dtype());
  return table.dtype() == dtype ? packed(table) : copy_as(table, dtype);
}

/// The memory order of the axes of x, except the last axis, which stays last.
Axes order_in_memory(const Tensor& x) {
  Axes order;
  for (int axis = 0; axis < x.rank(); ++axis) order.push_back(axis);
  const auto stride = [&](int64_t axis) { return x.strides()[static_cast<int>(axis)]; };
  std::stable_sort(order.begin(), order.end() - 1,
                   [&](int64_t a, int64_t b) { return stride(a) > stride(b); });
  return order;
}

Axes inverse(const Axes& order) {
  Axes result(order.size());
  for (size_t i = 0; i < order.size(); ++i) result[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  return result;
}

/// Runs the kernel with the axes in that order, which becomes the memory order of the result.
Tensor turn(const Tensor& x, const Axes& order, const Tensor& cosine, const Tensor& sine, bool interleaved,
            bool back) {
  const Tensor from = permute(x.alias(x.shape(), x.strides()), order);
  Tensor y = empty(from.shape(), x.dtype(), x.device(), "rotary");
  const int64_t n = cosine.size(-1), size = 2 * n;
  Shape pairs = x.shape();
  pairs.back() = n;
  Tensor turned = slice(y, -1, 0, size);
  VITRINE_RUN(rotary, turned, slice(from, -1, 0, size), permute(expand(cosine, pairs), order),
              permute(expand(sine, pairs), order), interleaved, back);
  if (size < x.size(-1)) {
    Tensor rest = slice(y, -1, size);
    VITRINE_RUN(copy, rest, slice(from, -1, size));
  }
  return permute(y, inverse(order));
}

}  // namespace

Tensor rotary(const Tensor& x, const Tensor& cosine, const Tensor& sine, bool interleaved) {
  check_rotary(x, cosine, sine);
  const auto definition = [&] { return define::rotary(x, cosine, sine, interleaved); };
  if (has_gradient(cosine) || has_gradient(sine)) return definition();
  if (const auto y = through_definition({x}, definition)) return *y;
  const Tensor c = table_for(x, cosine), s = table_for(x, sine);
  // Heads that are views into the rows of a larger tensor keep their memory order, and so does dx.
  const Axes order = order_in_memory(x);
  return record("rotary", {x}, turn(x, order, c, s, interleaved, false),
                [order, c = Saved(c), s = Saved(s), interleaved](const Tensor& dy) -> Grads {
                  return {turn(dy, order, c.get(), s.get(), interleaved, true)};
                });
}

}  // namespace vitrine
