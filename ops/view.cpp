#include "ops/view.h"

#include <algorithm>

#include "core/creation.h"
#include "core/record.h"
#include "ops/kernels.h"
#include "ops/reduce.h"

namespace vitrine {
namespace {

/// The shape with a −1 replaced by the size inferred from the others.
Shape resolve(const Tensor& x, Shape shape) {
  int unknown = -1;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] == -1) {
      check(unknown < 0, "reshape: more than one size of {} is -1", shape);
      unknown = i;
    } else {
      check(shape[i] >= 0, "reshape: the size {} in {} is negative", shape[i], shape);
    }
  }
  if (unknown >= 0) {
    Shape others = shape;
    others[unknown] = 1;
    const int64_t known = numel(others);
    check(known != 0, "reshape: the size -1 in {} can be anything, as {} has no elements: give it", shape,
          x.shape());
    check(x.numel() % known == 0, "reshape: {} elements of {} cannot fill {}", x.numel(), x.shape(), shape);
    shape[unknown] = x.numel() / known;
  }
  check(numel(shape) == x.numel(), "reshape: {} has {} elements, the shape {} has {}", x.shape(), x.numel(),
        shape, numel(shape));
  return shape;
}

/// Strides with which x can be viewed in `shape` without a copy, if they exist.
std::optional<Strides> strides_for(const Tensor& x, const Shape& shape) {
  if (x.is_contiguous()) return contiguous_strides(shape);
  Strides result = Strides::filled(shape.rank(), 1);
  // From the right, match runs of old axes that are contiguous with each other to runs of new axes.
  int out = shape.rank() - 1;
  for (int in = x.rank() - 1; in >= 0;) {
    int64_t run = x.shape()[in];
    const int64_t step = x.strides()[in];
    int first = in;
    while (first > 0 && x.strides()[first - 1] == x.shape()[first] * x.strides()[first])
      run *= x.shape()[--first];
    int64_t left = run, stride = step;
    while (out >= 0 && left > 1) {
      if (shape[out] == 0 || left % shape[out] != 0) return std::nullopt;
      result[out] = stride;
      stride *= shape[out];
      left /= shape[out--];
    }
    if (left != 1) return std::nullopt;
    in = first - 1;
  }
  return result;
}

/// A view of a part of x. Its gradient is added into that part. `part` maps the shape and the
/// strides of x to the part's region. The backward calls it again, for the gradient of x.
template <class F>
Tensor part_of(const char* op, const Tensor& x, F part) {
  const Region here = part(x.shape(), x.strides());
  return record(op, {x}, x.alias(here.shape, here.strides, here.offset),
                [part, shape = x.shape()](const Tensor& dy) -> Grads {
                  return {Grad::region(dy, part(shape, contiguous_strides(shape)))};
                });
}

}  // namespace

Tensor reshape(const Tensor& x, const Shape& wanted) {
  const Shape shape = resolve(x, wanted);
  const auto strides = strides_for(x, shape);
  if (!strides) return reshape(contiguous(x), shape);
  return record("reshape", {x}, x.alias(shape, *strides),
                [from = x.shape()](const Tensor& dy) -> Grads { return {reshape(dy, from)}; });
}

Tensor flatten(const Tensor& x, int64_t first, int64_t last) {
  if (x.rank() == 0) return reshape(x, {1});
  const int b = check_axis("flatten", x.shape(), first), e = check_axis("flatten", x.shape(), last);
  check(b <= e, "flatten: the first axis {} is after the last axis {}", first, last);
  Shape shape;
  int64_t merged = 1;
  for (int i = 0; i < x.rank(); ++i) {
    if (i < b || i > e) {
      shape.push_back(x.shape()[i]);
      continue;
    }
    merged *= x.shape()[i];
    if (i == e) shape.push_back(merged);
  }
  return reshape(x, shape);
}

Tensor permute(const Tensor& x, const Axes& axes) {
  const int rank = x.rank();
  check(static_cast<int>(axes.size()) == rank, "permute: {} axes were given, wanted the {} of x {}",
        axes.size(), rank, x.shape());
  Shape shape = x.shape();
  Strides strides = x.strides();
  Dims inverse = Dims::filled(rank, -1);
  for (int i = 0; i < rank; ++i) {
    const int from = check_axis("permute", x.shape(), axes[static_cast<size_t>(i)]);
    check(inverse[from] < 0, "permute: axis {} is given twice", from);
    shape[i] = x.shape()[from];
    strides[i] = x.strides()[from];
    inverse[from] = i;
  }
  return record("permute", {x}, x.alias(shape, strides), [inverse](const Tensor& dy) -> Grads {
    return {permute(dy, Axes(inverse.begin(), inverse.end()))};
  });
}

Tensor transpose(const Tensor& x, int64_t axis0, int64_t axis1) {
  Axes axes(static_cast<size_t>(x.rank()));
  for (size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<int64_t>(i);
  std::swap(axes[static_cast<size_t>(check_axis("transpose", x.shape(), axis0))],
            axes[static_cast<size_t>(check_axis("transpose", x.shape(), axis1))]);
  return permute(x, axes);
}

Tensor expand(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  check(broadcast("expand", x.shape(), shape) == shape, "expand: {} cannot be repeated to {}", x.shape(),
        shape);
  Strides strides = Strides::filled(shape.rank(), 0);
  const int added = shape.rank() - x.rank();
  for (int i = 0; i < x.rank(); ++i)
    if (x.shape()[i] == shape[added + i]) strides[added + i] = x.strides()[i];
  return record("expand", {x}, x.alias(shape, strides),
                [from = x.shape()](const Tensor& dy) -> Grads { return {sum_to(dy, from)}; });
}

Tensor squeeze(const Tensor& x, const Axes& axes) {
  const std::vector<int> given = check_axes("squeeze", x.shape(), axes);
  Shape shape;
  for (int i = 0; i < x.rank(); ++i) {
    const bool named = std::find(given.begin(), given.end(), i) != given.end();
    check(axes.empty() || !named || x.shape()[i] == 1, "squeeze: axis {} of {} has size {}, wanted 1", i,
          x.shape(), x.shape()[i]);
    if (!named || x.shape()[i] != 1) shape.push_back(x.shape()[i]);
  }
  return reshape(x, shape);
}

Tensor unsqueeze(const Tensor& x, int64_t axis) {
  const int rank = x.rank();
  check(axis >= -rank - 1 && axis <= rank, "unsqueeze: axis {} is outside [{}, {}] for the shape {}", axis,
        -rank - 1, rank, x.shape());
  Shape shape = x.shape();
  shape.insert(static_cast<int>(axis < 0 ? axis + rank + 1 : axis), 1);
  return reshape(x, shape);
}

Tensor slice(const Tensor& x, int64_t axis, std::optional<int64_t> start, std::optional<int64_t> stop,
             int64_t step) {
  const int a = check_axis("slice", x.shape(), axis);
  check(step != 0, "slice: the step is 0");
  const int64_t size = x.shape()[a];
  const int64_t lowest = step > 0 ? 0 : -1, highest = step > 0 ? size : size - 1;
  const auto bound = [&](std::optional<int64_t> given, int64_t missing) {
    if (!given) return missing;
    return std::clamp(*given < 0 ? *given + size : *given, lowest, highest);
  };
  const int64_t b = bound(start, step > 0 ? lowest : highest), e = bound(stop, step > 0 ? highest : lowest);
  // The step may be any int64, so it is never negated, and it is multiplied only if there is a
  // second element.
  const int64_t count =
      step > 0 ? (e > b ? (e - b - 1) / step + 1 : 0) : (b > e ? (e - b + 1) / step + 1 : 0);
  return part_of("slice", x, [=](const Shape& shape, const Strides& whole) {
    Region region{shape, whole, count == 0 ? 0 : b * whole[a]};
    region.shape[a] = count;
    if (count > 1) region.strides[a] = whole[a] * step;
    return region;
  });
}

Tensor select(const Tensor& x, int64_t axis, int64_t index) {
  const int a = check_axis("select", x.shape(), axis);
  const int64_t size = x.shape()[a];
  check(index >= -size && index < size, "select: index {} is outside [{}, {}) on axis {} of {}", index, -size,
        size, a, x.shape());
  const int64_t at = index < 0 ? index + size : index;
  return part_of("select", x, [=](const Shape& shape, const Strides& whole) {
    Region region{shape, whole, at * whole[a]};
    region.shape.erase(a);
    region.strides.erase(a);
    return region;
  });
}

std::vector<Tensor> split(const Tensor& x, const std::vector<int64_t>& sizes, int64_t axis) {
  const int a = check_axis("split", x.shape(), axis);
  int64_t end = 0;
  for (int64_t size : sizes) {
    check(size >= 0, "split: the size {} is negative", size);
    end = size > INT64_MAX - end ? INT64_MAX : end + size;
  }
  check(end == x.shape()[a], "split: the sizes [{}] add up to {}, axis {} of {} has {}",
        fmt::join(sizes, ", "), end, a, x.shape(), x.shape()[a]);
  const auto parts_of = [a, sizes](const Tensor& whole) {
    std::vector<Tensor> parts;
    int64_t start = 0;
    for (int64_t size : sizes) {
      parts.push_back(slice(whole, a, start, start + size));
      start += size;
    }
    return parts;
  };
  const auto views_of = [parts_of](const Tensor& whole) {
    const Tape::Pause pause;
    return parts_of(whole);
  };
  if (const auto parts = through_definition({x}, [&] { return parts_of(x); })) return *parts;
  return record_all(
      "split", {x}, views_of(x),
      [views_of, shape = x.shape(), dtype = x.dtype(), device = x.device()](const Backward& b) -> Grads {
        const Tensor dx = empty(shape, dtype, device);
        std::vector<Tensor> parts = views_of(dx);
        for (size_t i = 0; i < parts.size(); ++i) {
          if (b.dy(i).defined()) {
            VITRINE_RUN(copy, parts[i], b.dy(i));
          } else {
            VITRINE_RUN(fill, parts[i], 0);
          }
        }
        return {dx};
      });
}

std::vector<Tensor> split(const Tensor& x, int64_t size, int64_t axis) {
  const int a = check_axis("split", x.shape(), axis);
  check(size > 0, "split: the size is {}, wanted at least 1", size);
  std::vector<int64_t> sizes;
  for (int64_t left = x.shape()[a]; left > 0 || sizes.empty(); left -= size)
    sizes.push_back(std::min(size, left));
  return split(x, sizes, a);
}

Tensor flip(const Tensor& x, const Axes& axes) {
  Tensor y = x;
  for (int axis : check_axes("flip", x.shape(), axes)) y = slice(y, axis, std::nullopt, std::nullopt, -1);
  return y;
}

Tensor diagonal(const Tensor& x, int64_t offset) {
  check(x.rank() >= 2, "diagonal: wanted at least 2 axes, got {}", x.shape());
  const int row = x.rank() - 2, column = x.rank() - 1;
  const int64_t rows = x.shape()[row], columns = x.shape()[column];
  const int64_t by = std::clamp(offset, -rows, columns);  // beyond these the diagonal is empty too
  const int64_t first_row = std::max<int64_t>(0, -by), first_column = std::max<int64_t>(0, by);
  const int64_t count = std::max<int64_t>(0, std::min(rows - first_row, columns - first_column));
  return part_of("diagonal", x, [=](const Shape& shape, const Strides& whole) {
    Region region{shape, whole, count == 0 ? 0 : first_row * whole[row] + first_column * whole[column]};
    region.shape.erase(column);
    region.strides.erase(column);
    region.shape[row] = count;
    region.strides[row] = whole[row] + whole[column];
    return region;
  });
}

Tensor contiguous(const Tensor& x) { return x.is_contiguous() ? x : clone(x); }

Tensor clone(const Tensor& x) {
  return record("clone", {x}, copy_as(x, x.dtype()), [](const Tensor& dy) -> Grads { return {dy}; });
}

Tensor cast(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype || (x.dtype() == DType::dual64 && is_floating(dtype))) return x;
  Tensor y = copy_as(x, dtype);
  if (!is_floating(dtype)) return record_cut("cast", x, y);
  return record("cast", {x}, y, [from = x.dtype()](const Tensor& dy) -> Grads { return {cast(dy, from)}; });
}

Tensor to(const Tensor& x, Device device) {
  if (x.device() == device) return x;
  return record("to", {x}, copy_to(x, device),
                [from = x.device()](const Tensor& dy) -> Grads { return {to(dy, from)}; });
}

Tensor detach(const Tensor& x) {
  Tensor y = x.alias(x.shape(), x.strides());
  y.tape_mark().paused = 0;  // meant as a constant
  return record_cut("detach", x, y);
}

}  // namespace vitrine
