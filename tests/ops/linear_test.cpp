// Fully connected layers at sizes that are split into tiles and among threads.
#include <doctest/doctest.h>

#include "core/parallel.h"
#include "core/random.h"
#include "ops/activation.h"
#include "ops/matmul.h"

using namespace vitrine;

TEST_CASE(
    "linear_gelu_tanh activates every block of a large product, with the bits of two ops, on any number of threads") {
  const int before = threads();
  for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16, DType::float16}) {
    const Tensor x = copy_as(randn({200, 64}), dtype),
                 weight = copy_as(randn({700, 64}, DType::float32, Device::cpu, 0, 0.1), dtype),
                 bias = copy_as(randn({700}), dtype);
    const auto want = gelu_tanh(linear(x, weight, bias)).values();
    for (const int count : {1, 3}) {
      set_threads(count);
      CHECK_MESSAGE(linear_gelu_tanh(x, weight, bias).values() == want,
                    (std::string(name(dtype)) + ", threads ") << count);
    }
    set_threads(before);
  }
}
