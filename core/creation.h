// New tensors. None of these is recorded: what they return is a constant.
#pragma once

#include <concepts>
#include <initializer_list>
#include <ranges>
#include <span>
#include <type_traits>
#include <vector>

#include "core/tensor.h"

namespace vitrine {

/// Uninitialized. `op`, the calling function by default, is who asked for the memory,
/// should there be too little.
Tensor empty(const Shape& shape, DType dtype = DType::float32, Device device = Device::cpu,
             const char* op = __builtin_FUNCTION());
/// Uninitialized, contiguous, with the shape, dtype and device of `x`.
Tensor empty_like(const Tensor& x, const char* op = __builtin_FUNCTION());
Tensor full(const Shape& shape, double value, DType dtype = DType::float32, Device device = Device::cpu);
Tensor zeros(const Shape& shape, DType dtype = DType::float32, Device device = Device::cpu);
Tensor ones(const Shape& shape, DType dtype = DType::float32, Device device = Device::cpu);
/// Constants with the shape, dtype and device of x, as the next two
Tensor zeros_like(const Tensor& x);
Tensor ones_like(const Tensor& x);
Tensor full_like(const Tensor& x, double value);

/// start, start + step, … up to but not including stop, computed in float64; int64 by default.
Tensor arange(double start, double stop, double step = 1, DType dtype = DType::int64,
              Device device = Device::cpu);
/// `count` evenly spaced numbers from start to stop, both included.
Tensor linspace(double start, double stop, int64_t count, DType dtype = DType::float32,
                Device device = Device::cpu);
/// The n × m matrix with ones on the diagonal (m = n where it is negative).
Tensor eye(int64_t n, int64_t m = -1, DType dtype = DType::float32, Device device = Device::cpu);

/// The types of elements in C++: those of the dtypes.
template <class T>
concept Element = std::is_same_v<T, bool> || dtype_v<T>
!= DType::boolean;

namespace detail {
/// tensor() of `count` elements of the dtype `from`.
Tensor tensor_of(const void* values, size_t count, DType from, const Shape& shape, DType dtype,
                 Device device);
}  // namespace detail

/// Copies `values` (row-major, a span, vector or array) into a new tensor. The dtype is that of the
/// elements, or the given one; an integer dtype takes whole numbers of its range only. Errors: the
/// number of values does not fit the shape.
template <std::ranges::contiguous_range Values>
requires Element<std::ranges::range_value_t<Values>> Tensor
tensor(const Values& values, const Shape& shape, DType dtype = dtype_v<std::ranges::range_value_t<Values>>,
       Device device = Device::cpu) {
  return detail::tensor_of(std::ranges::data(values), std::ranges::size(values),
                           dtype_v<std::ranges::range_value_t<Values>>, shape, dtype, device);
}
/// tensor<uint8_t>({1, 2, 3, 4}, {2, 2}): a list of the elements named.
template <Element T>
Tensor tensor(std::initializer_list<std::type_identity_t<T>> values, const Shape& shape,
              DType dtype = dtype_v<T>, Device device = Device::cpu) {
  return detail::tensor_of(values.begin(), values.size(), dtype_v<T>, shape, dtype, device);
}
/// A vector of float32, or of the given dtype: tensor({1, 2, 3}).
Tensor tensor(std::initializer_list<double> values, DType dtype = DType::float32,
              Device device = Device::cpu);
/// tensor({1, 2, 3, 4}, {2, 2}).
Tensor tensor(std::initializer_list<double> values, const Shape& shape, DType dtype = DType::float32,
              Device device = Device::cpu);
/// int64 indices, not through double.
Tensor index_tensor(std::span<const int64_t> values, const Shape& shape, Device device = Device::cpu);

/// A contiguous copy in another dtype, not recorded (ops/view.h has the recorded `cast`).
Tensor copy_as(const Tensor& x, DType dtype);
/// A contiguous copy in the memory of a device, not recorded (ops/view.h has the recorded `to`).
Tensor copy_to(const Tensor& x, Device device);

}  // namespace vitrine
