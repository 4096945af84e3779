#include "tests/ops/reference.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "core/parallel.h"
#include "core/random.h"

namespace vitrine::test {

Tensor random(const Shape& shape, uint64_t seed, DType dtype, double low, double high) {
  Generator generator(seed);
  return rand(shape, dtype, Device::cpu, low, high, generator);
}

double distance(const Tensor& got, const Tensor& want, double floor) {
  constexpr double kFar = std::numeric_limits<double>::infinity();
  if (got.shape() != want.shape()) return kFar;
  const auto a = got.values(), b = want.values();
  double error = 0, scale = floor;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (a[i] == b[i] && std::isinf(a[i])) continue;
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) return kFar;
    error = std::max(error, std::abs(a[i] - b[i]));
    scale = std::max(scale, std::abs(b[i]));
  }
  return error / scale;
}

namespace {

double inner_product(const std::vector<Tensor>& xs, const std::vector<Tensor>& ys) {
  double total = 0;
  for (size_t k = 0; k < xs.size(); ++k) {
    const auto x = xs[k].values(), y = ys[k].values();
    for (size_t i = 0; i < x.size(); ++i) total += x[i] * y[i];
  }
  return total;
}

std::vector<Tensor> cotangents(const std::vector<Tensor>& ys, int order) {
  std::vector<Tensor> result;
  for (size_t k = 0; k < ys.size(); ++k)
    result.push_back(random(ys[k].shape(), 1000 * static_cast<uint64_t>(order) + k, ys[k].dtype(), 0.5, 1.5));
  return result;
}

/// f(xs) for order 0, else the derivative of the order below along its cotangents.
std::vector<Tensor> derivative(const Function& f, const std::vector<Tensor>& xs, int order) {
  if (order == 0) return {f(xs)};
  Tape tape({.order = order});
  std::vector<Tensor> watched;
  for (const Tensor& x : xs) watched.push_back(tape.watch(copy_as(x, x.dtype())));
  std::vector<Tensor> ys = {f(watched)};
  for (int k = 1; k <= order; ++k) ys = tape.gradient(ys, watched, cotangents(ys, k), Keep::yes);
  return ys;
}

}  // namespace

std::vector<Tensor> gradients(const Function& f, const std::vector<Tensor>& xs, int order) {
  return derivative(f, xs, order);
}

double gradient_error(const Function& f, const std::vector<Tensor>& xs, int order) {
  constexpr double kStep = 1e-3;
  double worst = 0;
  for (int k = 1; k <= order; ++k) {
    const auto exact = derivative(f, xs, k);
    const auto seeds = cotangents(derivative(f, xs, k - 1), k);
    for (size_t input = 0; input < xs.size(); ++input) {
      Tensor numeric = zeros_like(xs[input]);
      for (int64_t i = 0; i < xs[input].numel(); ++i) {
        const auto at = [&](double step) {
          std::vector<Tensor> moved = xs;
          moved[input] = copy_as(xs[input], DType::float64);
          moved[input].data<double>()[i] += step;
          return inner_product(derivative(f, moved, k - 1), seeds);
        };
        numeric.data<double>()[i] =
            (8 * (at(kStep) - at(-kStep)) - (at(2 * kStep) - at(-2 * kStep))) / (12 * kStep);
      }
      worst = std::max(worst, distance(exact[input], numeric, 0.1));
    }
  }
  return worst;
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
      same &= got[k].shape() == want[k].shape() && got[k].is_contiguous() && want[k].is_contiguous() &&
              std::memcmp(got[k].raw(), want[k].raw(),
                          static_cast<size_t>(want[k].numel() * want[k].element_size())) == 0;
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
