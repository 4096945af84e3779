#include "core/creation.h"

#include <cmath>

#include "core/kernels.h"

namespace vitrine {

Tensor empty(const Shape& shape, DType dtype, Device device) {
  const int64_t count = numel(shape);
  const auto size = static_cast<int64_t>(size_of(dtype));
  check(count <= INT64_MAX / size, "a tensor of shape {} needs more bytes than an int64 can count", shape);
  return Tensor(std::make_shared<Storage>(static_cast<size_t>(count * size), device), shape,
                contiguous_strides(shape), 0, dtype);
}

Tensor empty_like(const Tensor& x) { return empty(x.shape(), x.dtype(), x.device()); }

Tensor full(const Shape& shape, double value, DType dtype, Device device) {
  Tensor y = empty(shape, dtype, device);
  VITRINE_RUN(fill, y, value);
  return y;
}

Tensor zeros(const Shape& shape, DType dtype, Device device) { return full(shape, 0, dtype, device); }
Tensor ones(const Shape& shape, DType dtype, Device device) { return full(shape, 1, dtype, device); }
Tensor zeros_like(const Tensor& x) { return full_like(x, 0); }
Tensor ones_like(const Tensor& x) { return full_like(x, 1); }
Tensor full_like(const Tensor& x, double value) { return full(x.shape(), value, x.dtype(), x.device()); }

Tensor arange(double start, double stop, double step, DType dtype, Device device) {
  check(step != 0 && std::isfinite(step), "arange: the step is {}, wanted a finite number other than 0",
        step);
  check(std::isfinite(start) && std::isfinite(stop), "arange: start {} and stop {} must be finite", start,
        stop);
  const double count = std::ceil((stop - start) / step);
  check(count < 1e15, "arange: {} elements from {} to {} by {} are too many", count, start, stop, step);
  std::vector<double> values(count > 0 ? static_cast<size_t>(count) : 0);
  for (size_t i = 0; i < values.size(); ++i) values[i] = start + static_cast<double>(i) * step;
  return tensor(values, {static_cast<int64_t>(values.size())}, dtype, device);
}

Tensor linspace(double start, double stop, int64_t count, DType dtype, Device device) {
  check(count >= 0, "linspace: the count is {}, wanted at least 0", count);
  std::vector<double> values(static_cast<size_t>(count), start);
  for (int64_t i = 1; i < count; ++i)
    values[static_cast<size_t>(i)] =
        i == count - 1 ? stop
                       : start + (stop - start) * static_cast<double>(i) / static_cast<double>(count - 1);
  return tensor(values, {count}, dtype, device);
}

Tensor eye(int64_t n, int64_t m, DType dtype, Device device) {
  if (m < 0) m = n;
  Tensor y = zeros({n, m}, dtype, device);
  const int64_t diagonal = std::min(n, m);
  if (diagonal == 0) return y;
  Tensor ones = y.alias({diagonal}, {m + 1});
  VITRINE_RUN(fill, ones, 1.0);
  return y;
}

Tensor tensor(std::span<const double> values, const Shape& shape, DType dtype, Device device) {
  check(static_cast<int64_t>(values.size()) == numel(shape), "tensor: {} values do not fill the shape {}",
        values.size(), shape);
  Tensor source = empty(shape, DType::float64);
  std::copy(values.begin(), values.end(), source.data<double>());
  if (dtype == DType::float64 && device.is_cpu()) return source;
  Tensor converted = copy_as(source, dtype);
  if (device.is_cpu()) return converted;
  Tensor y = empty(shape, dtype, device);
  VITRINE_RUN_ON(device, transfer, y, converted);
  return y;
}

Tensor tensor(std::initializer_list<double> values, DType dtype, Device device) {
  return tensor(std::span(values.begin(), values.size()), {static_cast<int64_t>(values.size())}, dtype,
                device);
}

Tensor tensor(std::initializer_list<double> values, const Shape& shape, DType dtype, Device device) {
  return tensor(std::span(values.begin(), values.size()), shape, dtype, device);
}

Tensor index_tensor(std::span<const int64_t> values, const Shape& shape, Device device) {
  check(static_cast<int64_t>(values.size()) == numel(shape),
        "index_tensor: {} values do not fill the shape {}", values.size(), shape);
  Tensor source = empty(shape, DType::int64);
  std::copy(values.begin(), values.end(), source.data<int64_t>());
  if (device.is_cpu()) return source;
  Tensor y = empty(shape, DType::int64, device);
  VITRINE_RUN_ON(device, transfer, y, source);
  return y;
}

Tensor copy_as(const Tensor& x, DType dtype) {
  Tensor y = empty(x.shape(), dtype, x.device());
  VITRINE_RUN(copy, y, x);
  return y;
}

Tensor to_cpu(const Tensor& x) {
  if (x.device().is_cpu()) return copy_as(x, x.dtype());
  const Tensor packed = x.is_contiguous() ? x : copy_as(x, x.dtype());
  Tensor y = empty(x.shape(), x.dtype());
  VITRINE_RUN_ON(x.device(), transfer, y, packed);
  return y;
}

}  // namespace vitrine
