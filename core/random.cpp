#include "core/random.h"

#include <cmath>
#include <utility>

#include "core/convert.h"
#include "core/gpu/capture.h"
#include "core/philox.h"
#include "core/tensor_kernels.h"

namespace vitrine {

Draw Generator::draw(int64_t count) {
  const Draw* const moved = detail::moved(*this);
  return {seed(), reserve(count), moved};
}

int64_t Generator::next_below(int64_t limit) {
  check(limit > 0, "next_below: the limit is {}, wanted at least 1", limit);
  return static_cast<int64_t>(to_whole(seed(), reserve(1), static_cast<uint64_t>(limit)));
}

double Generator::next_uniform() { return to_fine_uniform(philox(seed(), reserve(1))); }

Generator& default_generator() {
  thread_local Generator generator;
  return generator;
}

void manual_seed(uint64_t seed) {
  detail::refuse_in_capture("manual_seed");
  default_generator().set(seed);
}

Tensor rand(const Shape& shape, DType dtype, Device device, double low, double high, Generator& generator) {
  check(is_floating(dtype), "rand: wanted a floating dtype, got {}", name(dtype));
  check(std::isfinite(high - low), "rand: the range [{}, {}) has no finite length", low, high);
  check(low <= high, "rand: the range [{}, {}) is empty", low, high);
  visit_floating(dtype, "rand", [&]<class T>(Type<T>) {
    check(std::isfinite(static_cast<double>(convert<T>(low))) &&
              std::isfinite(static_cast<double>(convert<T>(high))),
          "rand: the range [{}, {}) goes beyond the numbers of {}", low, high, name(dtype));
  });
  Tensor y = empty(shape, dtype, device);
  VITRINE_RUN(random_uniform, y, generator.draw(y.numel()), low, high);
  return y;
}

Tensor randn(const Shape& shape, DType dtype, Device device, double mean, double deviation,
             Generator& generator) {
  check(is_floating(dtype), "randn: wanted a floating dtype, got {}", name(dtype));
  check(deviation >= 0, "randn: the deviation is {}, wanted at least 0", deviation);
  Tensor y = empty(shape, dtype, device);
  VITRINE_RUN(random_normal, y, generator.draw(y.numel()), mean, deviation);
  return y;
}

Tensor randint(int64_t low, int64_t high, const Shape& shape, Device device, Generator& generator) {
  check(low < high, "randint: the range [{}, {}) is empty", low, high);
  int64_t count = 0;
  check(!__builtin_sub_overflow(high, low, &count),
        "randint: the range [{}, {}) has more numbers than an int64 can count", low, high);
  Tensor y = empty(shape, DType::int64, device);
  VITRINE_RUN(random_whole, y, generator.draw(4 * y.numel()), low, count);
  return y;
}

Tensor randperm(int64_t n, Device device, Generator& generator) {
  check(n >= 0, "randperm: n is {}, wanted at least 0", n);
  Tensor y = arange(0, static_cast<double>(n));
  auto* data = y.data<int64_t>();
  for (int64_t i = n - 1; i > 0; --i) std::swap(data[i], data[generator.next_below(i + 1)]);
  return device.is_cpu() ? y : copy_to(y, device);
}

}  // namespace vitrine
