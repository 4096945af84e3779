#include "ops/join.h"

#include <algorithm>

#include "core/adjoint.h"
#include "core/tensor_kernels.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/operands.h"

namespace vitrine {
namespace {

/// Sums and products of sizes that the caller chose. Beyond int64 they are errors.
int64_t sum_of(const char* op, int64_t a, int64_t b) {
  int64_t sum = 0;
  check(!__builtin_add_overflow(a, b, &sum), "{}: an axis of {} + {} elements is too long", op, a, b);
  return sum;
}
int64_t product_of(const char* op, int64_t a, int64_t b) {
  int64_t product = 0;
  check(!__builtin_mul_overflow(a, b, &product), "{}: an axis of {} · {} elements is too long", op, a, b);
  return product;
}

}  // namespace

Tensor concat(const std::vector<Tensor>& xs, int64_t axis) {
  check(!xs.empty(), "concat: there are no tensors to join");
  const int at = check_axis("concat", xs[0].shape(), axis);
  Shape shape = xs[0].shape();
  DType dtype = xs[0].dtype();
  shape[at] = 0;
  for (const Tensor& x : xs) {
    Shape others = x.shape();
    if (others.rank() > at) others[at] = shape[at];
    check(others == shape, "concat: the shapes {} and {} differ in more than the size of axis {}",
          xs[0].shape(), x.shape(), at);
    shape[at] = sum_of("concat", shape[at], x.size(at));
    dtype = promote(dtype, x.dtype());
  }
  Tensor y = empty(shape, dtype, xs[0].device());
  int64_t offset = 0;
  for (const Tensor& x : xs) {
    Tensor part = y.alias(x.shape(), y.strides(), offset * y.strides()[at]);
    VITRINE_RUN(copy, part, x);
    offset += x.size(at);
  }
  std::vector<int64_t> sizes;
  std::vector<DType> dtypes;
  for (const Tensor& x : xs) {
    sizes.push_back(x.size(at));
    dtypes.push_back(x.dtype());
  }
  return record("concat", xs, y, [sizes, dtypes, at](const Backward& b) -> Grads {
    const std::vector<Tensor> parts = split(b.dy(), sizes, at);
    Grads grads(parts.size());
    for (size_t i = 0; i < parts.size(); ++i)
      if (b.needs(i)) grads[i] = cast(parts[i], dtypes[i]);
    return grads;
  });
}

Tensor stack(const std::vector<Tensor>& xs, int64_t axis) {
  check(!xs.empty(), "stack: there are no tensors to join");
  for (const Tensor& x : xs)
    check(x.shape() == xs[0].shape(), "stack: the shapes {} and {} differ", xs[0].shape(), x.shape());
  Shape with_axis = xs[0].shape();
  with_axis.push_back(1);
  const int at = check_axis("stack", with_axis, axis);
  std::vector<Tensor> layers;
  for (const Tensor& x : xs) layers.push_back(unsqueeze(x, at));
  return concat(layers, at);
}

namespace {

/// The source indices of an axis of size n that is padded by `before` and `after`.
Tensor sources(int64_t n, int64_t before, int64_t after, PadMode mode, Device device) {
  const auto run = [&](int64_t first, int64_t count, int step) {
    const auto start = static_cast<double>(first);
    return arange(start, start + static_cast<double>(step * count), step, DType::int64, device);
  };
  const auto all = [&](int64_t source, int64_t count) {
    return full({count}, static_cast<double>(source), DType::int64, device);
  };
  const Tensor inside = run(0, n, 1);
  switch (mode) {
    case PadMode::edge: return concat({all(0, before), inside, all(n - 1, after)}, 0);
    case PadMode::wrap: return concat({run(n - before, before, 1), inside, run(0, after, 1)}, 0);
    default:  // reflect: the border is not repeated
      return concat({run(before, before, -1), inside, run(n - 2, after, -1)}, 0);
  }
}

Tensor pad_by_index(const Tensor& x, const std::vector<int64_t>& before, const std::vector<int64_t>& after,
                    PadMode mode) {
  Tensor y = x;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const auto at = static_cast<size_t>(axis);
    if (before[at] == 0 && after[at] == 0) continue;
    const int64_t n = x.size(axis),
                  most = mode == PadMode::reflect ? n - 1 : (mode == PadMode::wrap ? n : INT64_MAX);
    check(n > 0 && before[at] <= most && after[at] <= most,
          "pad: axis {} of {} has too few elements for {} before and {} after by {}", axis, x.shape(),
          before[at], after[at],
          mode == PadMode::reflect ? "reflection"
          : mode == PadMode::wrap  ? "wrapping"
                                   : "its edge");
    sum_of("pad", sum_of("pad", n, before[at]), after[at]);
    y = index_select(y, axis, sources(n, before[at], after[at], mode, x.device()));
  }
  return y;
}

}  // namespace

Tensor pad(const Tensor& x, const std::vector<int64_t>& before, const std::vector<int64_t>& after,
           PadMode mode, double value) {
  const auto rank = static_cast<size_t>(x.rank());
  check(before.size() == rank && after.size() == rank,
        "pad: before has {} entries and after {}, wanted one for each of the {} axes of x", before.size(),
        after.size(), rank);
  for (const auto* amounts : {&before, &after})
    for (int64_t amount : *amounts) check(amount >= 0, "pad: an amount is {}, wanted at least 0", amount);
  if (mode != PadMode::constant) return pad_by_index(x, before, after, mode);
  Shape shape = x.shape();
  for (size_t axis = 0; axis < rank; ++axis) {
    int64_t& size = shape[static_cast<int>(axis)];
    size = sum_of("pad", sum_of("pad", size, before[axis]), after[axis]);
  }
  Region inside{x.shape(), contiguous_strides(shape), 0};
  for (size_t axis = 0; axis < rank; ++axis)
    inside.offset += before[axis] * inside.strides[static_cast<int>(axis)];
  Tensor y = full(shape, value, x.dtype(), x.device());
  Tensor part = y.alias(inside.shape, inside.strides, inside.offset);
  VITRINE_RUN(copy, part, x);
  return record("pad", {x}, y, [inside](const Tensor& dy) -> Grads { return {adjoint::region(dy, inside)}; });
}

namespace {

/// Repeats each entry of an axis `times` times in a row, or all entries together `times` times.
/// [outer, n, inner] is expanded along a new axis after or before n, which is then merged with n.
Tensor repeat_axis(const char* op, const Tensor& x, int axis, int64_t times, bool together) {
  const auto product = [&](int from, int to) {
    int64_t result = 1;
    for (int i = from; i < to; ++i) result = product_of(op, result, x.shape()[i]);
    return result;
  };
  const int64_t outer = product(0, axis), n = x.shape()[axis], inner = product(axis + 1, x.rank());
  Shape merged = x.shape();
  merged[axis] = product_of(op, n, times);
  if (together) return reshape(expand(reshape(x, {outer, 1, n, inner}), {outer, times, n, inner}), merged);
  return reshape(expand(reshape(x, {outer, n, 1, inner}), {outer, n, times, inner}), merged);
}

}  // namespace

Tensor tile(const Tensor& x, const std::vector<int64_t>& times) {
  Tensor y = x;
  for (int64_t added = static_cast<int64_t>(times.size()) - x.rank(); added > 0; --added) y = unsqueeze(y, 0);
  const int64_t skipped = y.rank() - static_cast<int64_t>(times.size());
  for (size_t i = 0; i < times.size(); ++i) {
    check(times[i] >= 0, "tile: times[{}] is {}, wanted at least 0", i, times[i]);
    if (times[i] != 1)
      y = repeat_axis("tile", y, static_cast<int>(skipped) + static_cast<int>(i), times[i], true);
  }
  return y;
}

Tensor repeat(const Tensor& x, int64_t times, int64_t axis) {
  const int at = check_axis("repeat", x.shape(), axis);
  check(times >= 0, "repeat: times is {}, wanted at least 0", times);
  return repeat_axis("repeat", x, at, times, false);
}

namespace {

/// x if column − row ≤ diagonal (lower) or ≥ diagonal (upper), else 0.
Tensor triangle(const char* op, const Tensor& x, int64_t diagonal, bool lower) {
  check(x.rank() >= 2, "{}: x has the shape {}, wanted at least two axes", op, x.shape());
  const auto numbers = [&](int64_t axis) {
    return arange(0, static_cast<double>(x.size(axis)), 1, DType::int64, x.device());
  };
  diagonal = std::clamp(diagonal, -x.size(-2), x.size(-1));
  const Tensor columns = numbers(-1), limit = unsqueeze(numbers(-2), 1) + static_cast<double>(diagonal);
  return where(lower ? less_equal(columns, limit) : greater_equal(columns, limit), x, 0.0);
}

}  // namespace

Tensor tril(const Tensor& x, int64_t diagonal) { return triangle("tril", x, diagonal, true); }
Tensor triu(const Tensor& x, int64_t diagonal) { return triangle("triu", x, diagonal, false); }

}  // namespace vitrine
