#include "tests/ops/reference.h"

#include <cmath>
#include <cstring>

#include "core/gradcheck/check_gradients.h"
#include "core/gradcheck/differences.h"
#include "core/parallel.h"
#include "core/random.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace vitrine::test {

Tensor random(const Shape& shape, uint64_t seed, DType dtype, double low, double high) {
  Generator generator(seed);
  return rand(shape, dtype, Device::cpu, low, high, generator);
}

Tensor positive(const Shape& shape, uint64_t seed, DType dtype) {
  return random(shape, seed, dtype, 0.3, 1.5);
}

Tensor normal(const Shape& shape, uint64_t seed, DType dtype, double deviation) {
  Generator generator(seed);
  return randn(shape, dtype, Device::cpu, 0, deviation, generator);
}

Tensor leaf(std::initializer_list<double> values, DType dtype) {
  return tensor(values, dtype).requires_grad();
}

double distance(const Tensor& got, const Tensor& want, double floor) {
  return got.shape() == want.shape() ? vitrine::distance(got.values(), want.values(), floor) : INFINITY;
}

double largest_difference(const Tensor& x, const Tensor& y) {
  return max(abs(cast(x, DType::float64) - cast(y, DType::float64))).item();
}

bool same_bits(const Tensor& x, const Tensor& y) {
  const Tensor a = contiguous(x), b = contiguous(y);
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         std::memcmp(a.raw(), b.raw(), static_cast<size_t>(a.numel() * a.element_size())) == 0;
}

std::vector<Tensor> gradients(const Function& f, const std::vector<Tensor>& xs) {
  Tape tape;
  std::vector<Tensor> watched;
  for (const Tensor& x : xs) watched.push_back(tape.watch(copy_as(x, x.dtype())));
  const Tensor y = f(watched);
  return tape.gradient(std::vector<Tensor>{y}, watched, {random(y.shape(), 1000, y.dtype(), 0.5, 1.5)});
}

double gradient_error(const Function& f, const std::vector<Tensor>& xs, int order) {
  const GradientReport report =
      check_gradients(f, xs, {.probe = Probe::elements, .order = order, .taylor = false, .duals = Duals::no});
  if (!report.passed) MESSAGE(to_string(report));
  return report.error();
}

bool same_on_any_threads(const std::function<std::vector<Tensor>()>& f) {
  const int before = threads();
  set_threads(1);
  const auto want = f();
  bool same = true;
  for (int count : {2, 3, 7}) {
    set_threads(count);
    const auto got = f();
    for (size_t k = 0; k < want.size(); ++k)
      same &= got[k].is_contiguous() && want[k].is_contiguous() && same_bits(got[k], want[k]);
  }
  set_threads(before);
  return same;
}

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace vitrine::test
