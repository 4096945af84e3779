// New tensors. None of these is recorded: what they return is a constant.
#pragma once

#include <span>
#include <vector>

#include "core/tensor.h"

namespace vitrine {

/// Uninitialized. `op`, the calling function unless told otherwise, is who asked for the memory, should there be too little.
Tensor empty(const Shape& shape, DType dtype = DType::float32, Device device = Device::cpu,
             const char* op = __builtin_FUNCTION());
/// Uninitialized, contiguous, with the shape, dtype and device of `x`.
Tensor empty_like(const Tensor& x, const char* op = __builtin_FUNCTION());
Tensor full(const Shape& shape, double value, DType dtype = DType::float32, Device device = Device::cpu);
Tensor zeros(const Shape& shape, DType dtype = DType::float32, Device device = Device::cpu);
Tensor ones(const Shape& shape, DType dtype = DType::float32, Device device = Device::cpu);
Tensor zeros_like(const Tensor& x);  ///< constants with the shape, dtype and device of x, as the next two
Tensor ones_like(const Tensor& x);
Tensor full_like(const Tensor& x, double value);

/// start, start + step, … up to but not including stop, computed in float64; int64 unless told otherwise.
Tensor arange(double start, double stop, double step = 1, DType dtype = DType::int64,
              Device device = Device::cpu);
/// `count` evenly spaced numbers from start to stop, both included.
Tensor linspace(double start, double stop, int64_t count, DType dtype = DType::float32,
                Device device = Device::cpu);
/// The n × m matrix with ones on the diagonal (m = n where it is negative).
Tensor eye(int64_t n, int64_t m = -1, DType dtype = DType::float32, Device device = Device::cpu);

/// Copies `values` (row-major) into a new tensor; their number must fit the shape.
Tensor tensor(std::span<const double> values, const Shape& shape, DType dtype = DType::float32,
              Device device = Device::cpu);
/// A vector: tensor({1, 2, 3}).
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
