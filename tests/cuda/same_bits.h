// Code that the tests of kernels share: operands, and the comparison with the CPU.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "core/random.h"
#include "core/tape.h"
#include "ops/view.h"
#include "tests/cuda/device.h"
#include "tests/ops/reference.h"
#include "tests/spec/spec.h"

namespace vitrine::test {

inline const DType kAll[] = {DType::float32, DType::float64, DType::bfloat16, DType::float16,
                             DType::int64,   DType::int32,   DType::uint8,    DType::boolean};

/// Whole numbers from −9 to 9, with many equals.
inline Tensor whole(const Shape& shape, DType dtype, uint64_t seed = 1) {
  Generator g(seed);
  return copy_as(randint(-9, 10, shape, Device::cpu, g), dtype);
}

inline bool same(const Tensor& x, const Tensor& y) {
  const auto a = x.values(), b = y.values();
  if (x.shape() != y.shape() || x.dtype() != y.dtype()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i] != b[i] && !(std::isnan(a[i]) && std::isnan(b[i]))) return false;
  return true;
}

/// f on the GPU gives the bits that it gives on the CPU, in any order of threads.
template <class F>
void check_same(const Tensor& x, F&& f) {
  const Tensor want = f(x), on_device = to(x, Device::cuda);
  CHECK(same(f(on_device), want));
  in_any_order([&] { CHECK(same(f(on_device), want)); });
}

/// Values and gradients of f: those of the CPU but for rounding in float64, the same bits in any
/// order of threads.
inline void check_near(const spec::Call& f, const std::vector<Tensor>& inputs) {
  const auto run = [&](Device device) {
    std::vector<Tensor> x;
    Tape tape;
    for (const Tensor& t : inputs) x.push_back(tape.watch(to(t, device)));
    const Tensor y = f(x);
    std::vector<Tensor> results = tape.gradient({y}, x, {to(spec::draw_cotangent(y, 5), device)});
    results.push_back(y);
    return results;
  };
  const auto want = run(Device::cpu), got = run(Device::cuda);
  for (size_t i = 0; i < want.size(); ++i)
    CHECK(spec::distance(got[i].values(), want[i].values(), 1e-3) <= 1e-11);
  in_any_order([&] {
    const auto again = run(Device::cuda);
    for (size_t i = 0; i < want.size(); ++i) CHECK(same(again[i], got[i]));
  });
}

}  // namespace vitrine::test
