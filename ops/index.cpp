#include "ops/index.h"

#include "core/convert.h"
#include "core/loop.h"
#include "core/tensor_kernels.h"
#include "ops/elementwise.h"
#include "ops/index_check.h"
#include "ops/kernels.h"
#include "ops/operands.h"

namespace vitrine {
namespace {

/// Checks that index matches x: the same rank, and sizes up to x's on the other axes.
int check_gather(const char* op, const Tensor& x, int64_t axis, const Tensor& index) {
  const int at = check_axis(op, x.shape(), axis);
  bool fits = index.rank() == x.rank();
  for (int i = 0; fits && i < x.rank(); ++i) fits = i == at || index.size(i) <= x.size(i);
  check(fits,
        "{}: index has the shape {}, wanted the rank of x {} and at most its sizes on the axes other than {}",
        op, index.shape(), x.shape(), at);
  return at;
}

}  // namespace

namespace cpu {
namespace {

/// Visits the positions of `index` (int64). For each line along `axis`, calls f(offsets) with the
/// element offsets at which the line starts in index, in `along` (whose axis is indexed) and in
/// `beside` (which has index's shape). Different lines touch different elements of `along`, so they
/// may run in parallel. The elements of one line are visited in order.
template <class F>
void for_each_line(const Tensor& index, const Tensor& along, const Tensor& beside, int axis, F&& f) {
  Shape lines = index.shape();
  const int64_t length = std::exchange(lines[axis], 1);
  const StridedLoop<3> loop(lines, {index.strides(), along.strides(), beside.strides()});
  if (length == 0) return;
  loop.parallel(length, [&](std::array<int64_t, 3> at, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      f(at);
      for (size_t k = 0; k < 3; ++k) at[k] += loop.inner_stride[k];
    }
  });
}

}  // namespace
}  // namespace cpu

Tensor gather(const Tensor& x, int64_t axis, const Tensor& index) {
  const int at = check_gather("gather", x, axis, index);
  const Tensor places = checked_index(index, {"gather", "index", x.size(at), true});
  Tensor y = empty(index.shape(), x.dtype(), x.device());
  VITRINE_RUN(gather, y, x, places, at);
  return record(
      "gather", {x}, y,
      [shape = x.shape(), dtype = x.dtype(), at, places = Saved(places)](const Tensor& dy) -> Grads {
        const Tensor zero = zeros(shape, dtype, dy.device());
        return {scatter_add(zero, at, places, dy)};
      });
}

void cpu::gather(Tensor& y, const Tensor& x, const Tensor& index, int axis) {
  const int64_t n = index.size(axis), index_step = index.strides()[axis], x_step = x.strides()[axis],
                y_step = y.strides()[axis];
  visit_all(x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    for_each_line(index, x, y, axis, [&](const std::array<int64_t, 3>& at) {
      const int64_t* const places = index.data<int64_t>() + at[0];
      const T* const from = x.data<T>() + at[1];
      T* const to = y.data<T>() + at[2];
      for (int64_t i = 0; i < n; ++i) to[i * y_step] = from[places[i * index_step] * x_step];
    });
  });
}

Tensor scatter_add(const Tensor& x, int64_t axis, const Tensor& index, const Tensor& source) {
  const int at = check_gather("scatter_add", x, axis, index);
  check(source.shape() == index.shape(), "scatter_add: source has the shape {} and index {}, wanted the same",
        source.shape(), index.shape());
  check(source.dtype() == x.dtype(), "scatter_add: source is {} and x {}, wanted the same dtype",
        describe(source), describe(x));
  const Tensor places = checked_index(index, {"scatter_add", "index", x.size(at), true});
  // The 16-bit types are added up in float32 and rounded once.
  Tensor sums = copy_as(x, accumulation_dtype(x.dtype()));
  VITRINE_RUN(scatter_add, sums, places, source, at);
  const Tensor y = sums.dtype() == x.dtype() ? sums : copy_as(sums, x.dtype());
  return record("scatter_add", {x, source}, y, [at, places = Saved(places)](const Backward& b) -> Grads {
    return {b.dy(), b.needs(1) ? Grad(gather(b.dy(), at, places)) : Grad()};
  });
}

namespace cpu {
namespace {

/// Integers wrap around, as in NumPy.
template <class T>
T plus(T x, T y) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<uint64_t>(x) + static_cast<uint64_t>(y));
  } else {
    return x + y;
  }
}

}  // namespace
}  // namespace cpu

void cpu::scatter_add(Tensor& y, const Tensor& index, const Tensor& source, int axis) {
  const int64_t n = index.size(axis), index_step = index.strides()[axis], y_step = y.strides()[axis],
                source_step = source.strides()[axis];
  visit_all(source.dtype(), [&](auto type) {
    using S = typename decltype(type)::type;
    using T = AccumulatorOf<S>;
    for_each_line(index, y, source, axis, [&](const std::array<int64_t, 3>& at) {
      const int64_t* const places = index.data<int64_t>() + at[0];
      T* const to = y.data<T>() + at[1];
      const S* const from = source.data<S>() + at[2];
      for (int64_t i = 0; i < n; ++i) {
        T& sum = to[places[i * index_step] * y_step];
        sum = plus(sum, convert<T>(from[i * source_step]));
      }
    });
  });
}

namespace {

/// Slices x[index[i], …] along the first axis for a checked index of any shape.
Tensor take_rows(const char* op, const Tensor& x, const Tensor& index) {
  Shape rest = x.shape();
  rest.erase(0);
  const Tensor rows = index.alias({index.numel()}, {1});
  Shape flat = rest, shape = index.shape();
  flat.insert(0, rows.numel());
  for (int64_t size : rest) shape.push_back(size);
  Tensor y = empty(flat, x.dtype(), x.device());
  VITRINE_RUN(gather_rows, y, packed(x), rows);
  return record(op, {x}, y.alias(shape, contiguous_strides(shape)),
                [flat, rows = Saved(rows)](const Tensor& dy) -> Grads {
                  return {Grad::rows(reshape(dy, flat), rows)};
                });
}

}  // namespace

Tensor index_select(const Tensor& x, int64_t axis, const Tensor& index) {
  const int at = check_axis("index_select", x.shape(), axis);
  const Tensor places = checked_index(index, {"index_select", "index", x.size(at), true});
  if (at == 0) return take_rows("index_select", x, places);
  // For another axis: that axis is moved to the front, and the new axes are moved back to its
  // position.
  Tensor y = take_rows("index_select", move_axis(x, at, 0), places);
  Axes order;
  for (int i = 0; i < at; ++i) order.push_back(index.rank() + i);
  for (int i = 0; i < index.rank(); ++i) order.push_back(i);
  for (int i = index.rank() + at; i < y.rank(); ++i) order.push_back(i);
  return permute(y, order);
}

Tensor embedding(const Tensor& table, const Tensor& ids) {
  check_floating("embedding", "table", table);
  check(table.rank() == 2, "embedding: table has the shape {}, wanted [V, C]", table.shape());
  return take_rows("embedding", table, checked_index(ids, {"embedding", "ids", table.size(0)}));
}

Tensor one_hot(const Tensor& index, int64_t classes, DType dtype) {
  check(classes >= 0, "one_hot: classes is {}, wanted at least 0", classes);
  const Tensor places = checked_index(index, {"one_hot", "index", classes});
  Shape shape = index.shape();
  shape.push_back(classes);
  numel(shape);  // an error if there are more elements than an int64 can count
  const Tensor numbers = arange(0, static_cast<double>(classes), 1, DType::int64, index.device());
  return cast(equal(unsqueeze(places, -1), numbers), dtype);
}

}  // namespace vitrine
