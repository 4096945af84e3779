#include "core/creation.h"

#include <cmath>
#include <cstring>

#include "core/gpu/capture.h"
#include "core/tensor_kernels.h"

namespace vitrine {
namespace {

/// Converts numbers in the CPU's memory to another dtype, on any device.
Tensor converted(std::string_view op, const Tensor& source, DType dtype, Device device) {
  if (is_integer(dtype) && dtype != source.dtype())
    for (const double value : source.values()) check_number(op, value, dtype);
  if (!device.is_cpu()) detail::refuse_in_capture(op);
  const Tensor x = dtype == source.dtype() ? source : copy_as(source, dtype);
  return device.is_cpu() ? x : copy_to(x, device);
}

}  // namespace

Tensor empty(const Shape& shape, DType dtype, Device device, const char* op) {
  const int64_t count = numel(shape);
  const auto size = static_cast<int64_t>(size_of(dtype));
  check(count <= INT64_MAX / size, "a tensor of shape {} needs more bytes than an int64 can count", shape);
  try {
    return Tensor(std::make_shared<Storage>(static_cast<size_t>(count * size), device), shape,
                  contiguous_strides(shape), 0, dtype);
  } catch (const Error& error) {
    // Names the kernel that runs, or the function without its template arguments. A lambda is a
    // backward, and the tape names its op.
    const std::string_view kernel = detail::KernelScope::innermost();
    const std::string_view by =
        !kernel.empty() ? kernel : std::string_view(op).substr(0, std::string_view(op).find('<'));
    fail("{}{}a tensor {}{}: {}", by == "operator()" ? "" : by, by == "operator()" ? "" : ": ", name(dtype),
         shape, error.what());
  }
}

Tensor empty_like(const Tensor& x, const char* op) { return empty(x.shape(), x.dtype(), x.device(), op); }

Tensor full(const Shape& shape, double value, DType dtype, Device device) {
  check_number("full", value, dtype);
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
  const auto n = static_cast<int64_t>(std::max(count, 0.0));
  // If the first two elements are integers, all are. The first and the last are the extremes.
  if (is_integer(dtype))
    for (const int64_t i : {int64_t{0}, int64_t{1}, n - 1})
      if (i >= 0 && i < n) check_number("arange", start + static_cast<double>(i) * step, dtype);
  Tensor y = empty({n}, dtype, device);
  VITRINE_RUN(arange, y, start, step);
  return y;
}

Tensor linspace(double start, double stop, int64_t count, DType dtype, Device device) {
  check(count >= 0, "linspace: the count is {}, wanted at least 0", count);
  Tensor source = empty({count}, DType::float64);
  for (int64_t i = 0; i < count; ++i)
    source.data<double>()[i] =
        i == 0           ? start
        : i == count - 1 ? stop
                         : start + (stop - start) * static_cast<double>(i) / static_cast<double>(count - 1);
  return converted("linspace", source, dtype, device);
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

Tensor detail::tensor_of(const void* values, size_t count, DType from, const Shape& shape, DType dtype,
                         Device device) {
  check(static_cast<int64_t>(count) == numel(shape), "tensor: {} values do not fill the shape {}", count,
        shape);
  Tensor source = empty(shape, from, Device::cpu, "tensor");
  if (count > 0) std::memcpy(source.raw(), values, count * size_of(from));
  return converted("tensor", source, dtype, device);
}

Tensor tensor(std::initializer_list<double> values, DType dtype, Device device) {
  return tensor(values, {static_cast<int64_t>(values.size())}, dtype, device);
}

Tensor tensor(std::initializer_list<double> values, const Shape& shape, DType dtype, Device device) {
  return detail::tensor_of(values.begin(), values.size(), DType::float64, shape, dtype, device);
}

Tensor index_tensor(std::span<const int64_t> values, const Shape& shape, Device device) {
  check(static_cast<int64_t>(values.size()) == numel(shape),
        "index_tensor: {} values do not fill the shape {}", values.size(), shape);
  Tensor source = empty(shape, DType::int64);
  std::copy(values.begin(), values.end(), source.data<int64_t>());
  if (!device.is_cpu()) detail::refuse_in_capture("index_tensor");
  return device.is_cpu() ? source : copy_to(source, device);
}

Tensor copy_as(const Tensor& x, DType dtype) {
  Tensor y = empty(x.shape(), dtype, x.device());
  VITRINE_RUN(copy, y, x);
  return y;
}

Tensor copy_to(const Tensor& x, Device device) {
  if (x.device() == device) return copy_as(x, x.dtype());
  detail::refuse_in_capture("to");
  const Tensor packed = x.is_contiguous() ? x : copy_as(x, x.dtype());
  Tensor y = empty(x.shape(), x.dtype(), device);
  VITRINE_RUN_ON(device.is_cpu() ? x.device() : device, transfer, y, packed, /*wait=*/true);
  return y;
}

}  // namespace vitrine
