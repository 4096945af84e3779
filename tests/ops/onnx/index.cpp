// Operators that read and write by index, sort, or keep a triangle.
#include <numeric>

#include "core/creation.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/join.h"
#include "ops/operands.h"
#include "ops/reduce.h"
#include "ops/sort.h"
#include "ops/view.h"
#include "tests/ops/onnx/adapters.h"

namespace vitrine::test {
namespace {

OnnxAdapter extreme_place(Tensor (*f)(const Tensor&, int64_t, KeepAxes)) {
  return [f](Case c) -> Outputs {
    const int64_t axis = c.attribute("axis", int64_t{0});
    const KeepAxes keep = c.attribute("keepdims", 1) != 0 ? KeepAxes::yes : KeepAxes::no;
    if (c.attribute("select_last_index", 0) == 0) return {f(c.in(0), axis, keep)};
    return {static_cast<double>(c.in(0).size(axis) - 1) - f(flip(c.in(0), {axis}), axis, keep)};
  };
}

/// Our sums of integers are int64.
Outputs cumsum_case(Case c) {
  const Tensor y = cumsum(c.in(0), static_cast<int64_t>(c.in(1).item()), c.attribute("exclusive", 0) != 0,
                          c.attribute("reverse", 0) != 0);
  return {cast(y, c.in(0).dtype())};
}

/// x with the update combined at `index` along an axis by "none" (replace), "add", "mul", "min" or
/// "max". Positions of the index run one at a time, because several may name the same element.
Tensor scatter(const Tensor& x, int64_t axis, const Tensor& index, const Tensor& update,
               const std::string& reduction) {
  if (reduction == "add") return scatter_add(x, axis, index, update);
  check(reduction == "none" || reduction == "mul" || reduction == "min" || reduction == "max",
        "scatter: the reduction {} is not known", reduction);
  Tensor y = x;
  for (int64_t i = 0; i < index.size(axis); ++i) {
    const Tensor at = slice(index, axis, i, i + 1), source = slice(update, axis, i, i + 1);
    const Tensor written = scatter_add(zeros_like(x), axis, at, source);
    const Tensor hit = scatter_add(zeros(x.shape(), DType::int64), axis, at, ones(at.shape(), DType::int64));
    Tensor there = written;
    if (reduction == "mul") there = y * written;
    if (reduction == "min") there = minimum(y, written);
    if (reduction == "max") there = maximum(y, written);
    y = where(greater(hit, zeros_like(hit)), there, y);
  }
  return y;
}

/// x with its first axes merged into one, and indices [..., count] into these axes merged into one
/// number each, [...].
std::pair<Tensor, Tensor> merge_axes(const Tensor& x, const Tensor& indices) {
  const int64_t count = indices.size(-1);
  Tensor flat = zeros(select(indices, -1, 0).shape(), DType::int64);
  for (int64_t axis = 0; axis < count; ++axis) {
    const Tensor i = select(indices, -1, axis);
    const auto size = static_cast<double>(x.size(axis));
    flat = flat * size + where(less(i, zeros_like(i)), i + size, i);
  }
  return {flatten(x, 0, count - 1), flat};
}

Outputs gather_nd(Case c) {
  const int64_t batch = c.attribute("batch_dims", int64_t{0});
  const auto one = [](const Tensor& x, const Tensor& indices) {
    const auto [rows, places] = merge_axes(x, indices);
    return index_select(rows, 0, places);
  };
  if (batch == 0) return {one(c.in(0), c.in(1))};
  // Runs the batches one by one, and restores their axes.
  Shape shape;
  for (int64_t axis = 0; axis < batch; ++axis) shape.push_back(c.in(0).size(axis));
  const Tensor x = flatten(c.in(0), 0, batch - 1), indices = flatten(c.in(1), 0, batch - 1);
  std::vector<Tensor> parts;
  for (int64_t b = 0; b < x.size(0); ++b) parts.push_back(one(select(x, 0, b), select(indices, 0, b)));
  const Tensor y = stack(parts);
  for (int axis = 1; axis < y.rank(); ++axis) shape.push_back(y.shape()[axis]);
  return {reshape(y, shape)};
}

Outputs scatter_nd(Case c) {
  const auto [rows, places] = merge_axes(c.in(0), c.in(1));
  Shape shape = rows.shape(), column = Shape::filled(rows.rank(), 1);
  shape[0] = column[0] = places.numel();
  const Tensor index = expand(reshape(places, column), shape), update = reshape(c.in(2), shape);
  const Tensor y = scatter(rows, 0, index, update, c.attribute<std::string>("reduction", "none"));
  return {reshape(y, c.in(0).shape())};
}

/// Writes an update into a cache, starting at a separate position for each row of the batch.
Outputs tensor_scatter(Case c) {
  const Tensor cache = c.in(0), update = c.in(1);
  const int axis = check_axis("tensor_scatter", cache.shape(), c.attribute("axis", int64_t{-2}));
  const int64_t size = cache.size(axis), count = update.size(axis);
  const bool circular = c.attribute<std::string>("mode", "linear") == "circular";
  std::vector<int64_t> starts = integers(c.in(2));
  starts.resize(static_cast<size_t>(cache.size(0)), 0);
  std::vector<int64_t> places;
  for (int64_t start : starts) {
    check(circular || start + count <= size, "TensorScatter: {} rows from {} on do not fit into {}", count,
          start, size);
    for (int64_t i = 0; i < count; ++i) places.push_back((start + i) % size);
  }
  Shape shape = Shape::filled(cache.rank(), 1);
  shape[0] = cache.size(0), shape[axis] = count;
  return {scatter(cache, axis, expand(index_tensor(places, shape), update.shape()), update, "none")};
}

/// Two values, off and on, along an axis of `depth` elements; an index outside it leaves all off.
Outputs one_hot_case(Case c) {
  const auto depth = static_cast<int64_t>(c.in(1).item());
  const Tensor raw = cast(c.in(0), DType::int64), zero = zeros_like(raw);
  const Tensor index = where(less(raw, zero), raw + static_cast<double>(depth), raw);
  const Tensor inside =
      logical_and(greater_equal(index, zero), less(index, full_like(index, static_cast<double>(depth))));
  const Tensor hot =
      logical_and(one_hot(where(inside, index, 0.0), depth, DType::boolean), unsqueeze(inside, -1));
  return {move_axis(where(hot, select(c.in(2), 0, 1), select(c.in(2), 0, 0)), -1,
                    c.attribute("axis", int64_t{-1}))};
}

Outputs top_k(Case c) {
  const Sorted s = topk(c.in(0), integers(c.in(1)).at(0), c.attribute("axis", int64_t{-1}),
                        c.attribute("largest", 1) != 0);
  return {s.values, s.indices};
}

Outputs trilu(Case c) {
  const auto diagonal = c.has(1) ? static_cast<int64_t>(c.in(1).item()) : 0;
  return {c.attribute("upper", 1) != 0 ? triu(c.in(0), diagonal) : tril(c.in(0), diagonal)};
}

}  // namespace

const OnnxAdapters kIndexAdapters = {
    {"ArgMax", extreme_place(argmax)},
    {"CumSum", cumsum_case},
    {"Gather",
     [](Case c) -> Outputs { return {index_select(c.in(0), c.attribute("axis", int64_t{0}), c.in(1))}; }},
    {"GatherElements",
     [](Case c) -> Outputs { return {gather(c.in(0), c.attribute("axis", int64_t{0}), c.in(1))}; }},
    {"GatherND", gather_nd},
    {"OneHot", one_hot_case},
    {"ScatterElements",
     [](Case c) -> Outputs {
       return {scatter(c.in(0), c.attribute("axis", int64_t{0}), c.in(1), c.in(2),
                       c.attribute<std::string>("reduction", "none"))};
     }},
    {"ScatterND", scatter_nd},
    {"TensorScatter", tensor_scatter},
    {"TopK", top_k},
    {"Trilu", trilu},
};

}  // namespace vitrine::test
