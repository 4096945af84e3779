#include "nn/init.h"

#include <cmath>

namespace vitrine::nn {
namespace {

void check_weight(const char* name, const Shape& shape) {
  check(shape.rank() == 2 && numel(shape) > 0, "{}: wanted the shape [out, in] of a weight, got {}", name,
        shape);
}

}  // namespace

Parameter normal(const Shape& shape, double deviation, Generator& generator) {
  return Parameter(randn(shape, DType::float32, Device::cpu, 0, deviation, generator));
}

Parameter uniform(const Shape& shape, double bound, Generator& generator) {
  return Parameter(rand(shape, DType::float32, Device::cpu, -bound, bound, generator));
}

Parameter xavier_uniform(const Shape& shape, Generator& generator) {
  check_weight("xavier_uniform", shape);
  return uniform(shape, std::sqrt(6.0 / static_cast<double>(shape[0] + shape[1])), generator);
}

Parameter kaiming_normal(const Shape& shape, Generator& generator) {
  check_weight("kaiming_normal", shape);
  return normal(shape, std::sqrt(2.0 / static_cast<double>(shape[1])), generator);
}

Parameter constant(const Shape& shape, double value) { return Parameter(full(shape, value)); }

}  // namespace vitrine::nn
