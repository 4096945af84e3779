#include "nn/init.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace vitrine::nn {
namespace {

void check_weight(const char* name, const Shape& shape) {
  check(shape.rank() == 2 && numel(shape) > 0, "{}: wanted the shape [out, in] of a weight, got {}", name,
        shape);
}

double fan_in(const Shape& shape) { return static_cast<double>(shape[1]); }
double fan_both(const Shape& shape) { return static_cast<double>(shape[0] + shape[1]); }

/// Orthonormalizes `count` rows of `length` numbers by Gram-Schmidt. It runs twice, because one run
/// leaves rounding errors. Rows from a normal distribution become uniformly distributed, since the
/// diagonal of R is positive (Mezzadri 2007).
void orthonormalize(std::vector<double>& x, int64_t count, int64_t length) {
  const auto dot = [length](const double* a, const double* b) {
    double sum = 0;
    for (int64_t k = 0; k < length; ++k) sum += a[k] * b[k];
    return sum;
  };
  for (int64_t i = 0; i < count; ++i) {
    double* const row = x.data() + i * length;
    for (int pass = 0; pass < 2; ++pass)
      for (int64_t j = 0; j < i; ++j) {
        const double* const other = x.data() + j * length;
        const double along = dot(row, other);
        for (int64_t k = 0; k < length; ++k) row[k] -= along * other[k];
      }
    const double norm = std::sqrt(dot(row, row));
    for (int64_t k = 0; k < length; ++k) row[k] /= norm;
  }
}

}  // namespace

Parameter normal(const Shape& shape, double deviation, Generator& generator) {
  check(deviation >= 0, "normal: the deviation is {}, wanted at least 0", deviation);
  return Parameter(randn(shape, DType::float32, Device::cpu, 0, deviation, generator));
}

Parameter uniform(const Shape& shape, double bound, Generator& generator) {
  check(bound >= 0, "uniform: the bound is {}, wanted at least 0", bound);
  return Parameter(rand(shape, DType::float32, Device::cpu, -bound, bound, generator));
}

Parameter truncated_normal(const Shape& shape, double deviation, Generator& generator) {
  check(deviation >= 0, "truncated_normal: the deviation is {}, wanted at least 0", deviation);
  const Tensor x = randn(shape, DType::float32, Device::cpu, 0, deviation, generator);
  float* const data = x.data<float>();
  const auto limit = static_cast<float>(2 * deviation);
  std::vector<int64_t> beyond;
  for (int64_t i = 0; i < x.numel(); ++i)
    if (std::abs(data[i]) > limit) beyond.push_back(i);
  while (!beyond.empty()) {
    const Tensor again =
        randn({static_cast<int64_t>(beyond.size())}, DType::float32, Device::cpu, 0, deviation, generator);
    for (size_t i = 0; i < beyond.size(); ++i) data[beyond[i]] = again.data<float>()[i];
    std::erase_if(beyond, [&](int64_t i) { return std::abs(data[i]) <= limit; });
  }
  return Parameter(x);
}

Parameter constant(const Shape& shape, double value) { return Parameter(full(shape, value)); }

Parameter orthogonal(const Shape& shape, double gain, Generator& generator) {
  check_weight("orthogonal", shape);
  const int64_t rows = shape[0], columns = shape[1];
  const int64_t count = std::min(rows, columns), length = std::max(rows, columns);
  std::vector<double> x = randn({count, length}, DType::float64, Device::cpu, 0, 1, generator).values();
  orthonormalize(x, count, length);
  Tensor weight = empty(shape);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) {
      const int64_t at = rows <= columns ? i * length + j : j * length + i;
      weight.data<float>()[i * columns + j] = static_cast<float>(gain * x[static_cast<size_t>(at)]);
    }
  return Parameter(weight);
}

Parameter xavier_uniform(const Shape& shape, double gain, Generator& generator) {
  check_weight("xavier_uniform", shape);
  return uniform(shape, gain * std::sqrt(6 / fan_both(shape)), generator);
}

Parameter xavier_normal(const Shape& shape, double gain, Generator& generator) {
  check_weight("xavier_normal", shape);
  return normal(shape, gain * std::sqrt(2 / fan_both(shape)), generator);
}

Parameter kaiming_uniform(const Shape& shape, double gain, Generator& generator) {
  check_weight("kaiming_uniform", shape);
  return uniform(shape, gain * std::sqrt(3 / fan_in(shape)), generator);
}

Parameter kaiming_normal(const Shape& shape, double gain, Generator& generator) {
  check_weight("kaiming_normal", shape);
  return normal(shape, gain / std::sqrt(fan_in(shape)), generator);
}

double residual_deviation(double deviation, int64_t layers) {
  check(layers > 0, "residual_deviation: wanted at least one layer, got {}", layers);
  return deviation / std::sqrt(2 * static_cast<double>(layers));
}

}  // namespace vitrine::nn
