#include "core/shape.h"

#include <algorithm>

#include "core/device.h"

namespace vitrine {

Dims::Dims(std::span<const int64_t> values) : rank_(static_cast<int>(values.size())) {
  check(values.size() <= kMax, "a tensor has at most {} axes, got {}", kMax, values.size());
  std::copy(values.begin(), values.end(), values_.begin());
}

Dims Dims::filled(int rank, int64_t value) {
  check(rank <= kMax, "a tensor has at most {} axes, got {}", kMax, rank);
  Dims dims;
  dims.rank_ = rank;
  std::fill(dims.begin(), dims.end(), value);
  return dims;
}

void Dims::push_back(int64_t value) { insert(rank_, value); }

void Dims::insert(int at, int64_t value) {
  check(rank_ < kMax, "a tensor has at most {} axes", kMax);
  std::copy_backward(begin() + at, end(), end() + 1);
  values_[static_cast<size_t>(at)] = value;
  ++rank_;
}

void Dims::erase(int at) {
  std::copy(begin() + at + 1, end(), begin() + at);
  --rank_;
}

bool Dims::operator==(const Dims& other) const {
  return std::equal(begin(), end(), other.begin(), other.end());
}

int64_t numel(const Shape& shape) {
  int64_t product = 1;
  bool overflow = false, none = false;
  for (int64_t size : shape) {
    check(size >= 0, "a tensor cannot have the shape {}: the size {} is negative", shape, size);
    none |= size == 0;
    // An overflow next to a size of 0 counts as well, because strides multiply the other sizes.
    overflow |= __builtin_mul_overflow(product, std::max<int64_t>(size, 1), &product);
  }
  check(!overflow, "a tensor of shape {} has more elements than an int64 can count", shape);
  return none ? 0 : product;
}

Strides contiguous_strides(const Shape& shape) {
  Strides strides = shape;
  int64_t step = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    strides[i] = step;
    step *= std::max<int64_t>(shape[i], 1);
  }
  return strides;
}

std::string to_string(const Dims& dims) {
  return fmt::format("[{}]", fmt::join(dims.begin(), dims.end(), ", "));
}

Shape broadcast(std::string_view op, const Shape& x, const Shape& y) {
  const int rank = std::max(x.rank(), y.rank());
  Shape result = Shape::filled(rank, 1);
  for (int i = 0; i < rank; ++i) {
    const int ix = i - (rank - x.rank()), iy = i - (rank - y.rank());
    const int64_t a = ix < 0 ? 1 : x[ix], b = iy < 0 ? 1 : y[iy];
    check(a == b || a == 1 || b == 1,
          "{}: the shapes {} and {} do not broadcast: sizes {} and {} differ and neither is 1", op, x, y, a,
          b);
    result[i] = a == 1 ? b : a;
  }
  return result;
}

int check_axis(std::string_view op, const Shape& shape, int64_t axis) {
  const int rank = shape.rank();
  check(axis >= -rank && axis < rank, "{}: axis {} is outside [{}, {}) for the shape {}", op, axis, -rank,
        rank, shape);
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

std::vector<int> check_axes(std::string_view op, const Shape& shape, std::span<const int64_t> axes) {
  std::vector<int> result;
  if (axes.empty())
    for (int i = 0; i < shape.rank(); ++i) result.push_back(i);
  for (int64_t axis : axes) result.push_back(check_axis(op, shape, axis));
  std::sort(result.begin(), result.end());
  const auto twice = std::adjacent_find(result.begin(), result.end());
  check(twice == result.end(), "{}: axis {} is given twice", op, twice == result.end() ? 0 : *twice);
  return result;
}

}  // namespace vitrine
