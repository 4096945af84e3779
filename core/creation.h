// Functions that create tensors. None of them is recorded: a tape sees their results as constants.
#pragma once

#include <concepts>
#include <initializer_list>
#include <ranges>
#include <span>
#include <type_traits>
#include <vector>

#include "core/tensor.h"

namespace vitrine {

/// Uninitialized memory. `op`, by default the name of the calling function, begins the error when
/// there is too little memory.
Tensor empty(const Shape& shape, DType dtype = DType::float32, Device device = Device::cpu,
             const char* op = __builtin_FUNCTION());
/// Uninitialized, contiguous, with the shape, dtype and device of `x`.
Tensor empty_like(const Tensor& x, const char* op = __builtin_FUNCTION());
Tensor full(const Shape& shape, double value, DType dtype = DType::float32, Device device = Device::cpu);
Tensor zeros(const Shape& shape, DType dtype = DType::float32, Device device = Device::cpu);
Tensor ones(const Shape& shape, DType dtype = DType::float32, Device device = Device::cpu);
/// Constants with the shape, dtype and device of x.
Tensor zeros_like(const Tensor& x);
Tensor ones_like(const Tensor& x);
Tensor full_like(const Tensor& x, double value);

/// start, start + step, … up to but not including stop, computed in float64; int64 by default.
Tensor arange(double start, double stop, double step = 1, DType dtype = DType::int64,
              Device device = Device::cpu);
/// `count` evenly spaced numbers from start to stop, both included.
Tensor linspace(double start, double stop, int64_t count, DType dtype = DType::float32,
                Device device = Device::cpu);
/// The n × m matrix with ones on the main diagonal; a negative m means m = n.
Tensor eye(int64_t n, int64_t m = -1, DType dtype = DType::float32, Device device = Device::cpu);

/// The C++ element types: one for each dtype.
template <class T>
concept Element = std::is_same_v<T, bool> || dtype_v<T>
!= DType::boolean;

namespace detail {
/// The implementation of tensor(), for `count` elements of dtype `from`.
Tensor tensor_of(const void* values, size_t count, DType from, const Shape& shape, DType dtype,
                 Device device);
}  // namespace detail

/// Copies `values` (row-major: a span, vector or array) into a new tensor. The dtype is the dtype
/// of the elements, or the given one. An integer dtype accepts only whole numbers in its range.
/// Errors: the number of values does not match the shape.
template <std::ranges::contiguous_range Values>
requires Element<std::ranges::range_value_t<Values>> Tensor
tensor(const Values& values, const Shape& shape, DType dtype = dtype_v<std::ranges::range_value_t<Values>>,
       Device device = Device::cpu) {
  return detail::tensor_of(std::ranges::data(values), std::ranges::size(values),
                           dtype_v<std::ranges::range_value_t<Values>>, shape, dtype, device);
}
/// The same for a list with a named element type: tensor<uint8_t>({1, 2, 3, 4}, {2, 2}).
template <Element T>
Tensor tensor(std::initializer_list<std::type_identity_t<T>> values, const Shape& shape,
              DType dtype = dtype_v<T>, Device device = Device::cpu) {
  return detail::tensor_of(values.begin(), values.size(), dtype_v<T>, shape, dtype, device);
}
/// A vector, float32 by default: tensor({1, 2, 3}).
Tensor tensor(std::initializer_list<double> values, DType dtype = DType::float32,
              Device device = Device::cpu);
/// tensor({1, 2, 3, 4}, {2, 2}).
Tensor tensor(std::initializer_list<double> values, const Shape& shape, DType dtype = DType::float32,
              Device device = Device::cpu);
/// A tensor of int64 indices. The values do not pass through double, so large ones stay exact.
Tensor index_tensor(std::span<const int64_t> values, const Shape& shape, Device device = Device::cpu);

/// A contiguous copy in another dtype, not recorded (ops/view.h has the recorded `cast`).
Tensor copy_as(const Tensor& x, DType dtype);
/// A contiguous copy in the memory of a device, not recorded (ops/view.h has the recorded `to`).
Tensor copy_to(const Tensor& x, Device device);

}  // namespace vitrine
