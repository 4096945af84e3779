// Weights in 8 bits: rounding to levels, and the product against its definition on every
// instruction set.
#include "ops/quantized.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "core/creation.h"
#include "core/parallel.h"
#include "core/tape.h"
#include "ops/cpu/gemm/gemm.h"
#include "ops/elementwise.h"
#include "ops/view.h"
#include "tests/ops/reference.h"

using namespace vitrine;

TEST_CASE("a level is nearest to its element, and the largest element of a row is exact") {
  const Tensor w =
      test::normal({5, 37}, 1, DType::float32) * reshape(tensor({1, 100, 1e-3, 1e-30, 0}), {5, 1});
  const Int8Matrix q = quantize_int8(w);
  CHECK(q.levels.shape() == Shape{5, 37});
  CHECK(q.levels.dtype() == DType::uint8);
  const auto want = w.values(), got = dequantize(q).values(), scale = q.scale.values();
  for (size_t i = 0; i < 5; ++i) {
    double largest = 0, error_of_largest = 0;
    for (size_t j = 0; j < 37; ++j) {
      const double x = want[i * 37 + j], error = std::abs(got[i * 37 + j] - x);
      CHECK(error <= 0.5 * scale[i] * (1 + 1e-5));
      if (std::abs(x) >= largest) largest = std::abs(x), error_of_largest = error;
    }
    CHECK(scale[i] == doctest::Approx(largest / 127));
    CHECK(error_of_largest <= 1e-6 * largest);
  }
  CHECK(scale[4] == 0);
  // Levels are symmetric: −W has mirrored levels.
  const auto up = q.levels.values(), down = quantize_int8(-w).levels.values();
  for (size_t i = 0; i < up.size(); ++i) CHECK(up[i] - 128 == 128 - down[i]);
}

TEST_CASE("linear_int8 is the product with the dequantized weights, for every dtype and many shapes") {
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::float16})
    for (const int64_t rows : {1, 2, 3, 4, 5, 8, 19})
      for (const int64_t N : {1, 7, 16, 300})
        for (const int64_t K : {1, 5, 16, 33, 130}) {
          const Tensor x = test::normal({rows, K}, 2, dtype), b = test::normal({N}, 4, dtype);
          const Int8Matrix w = quantize_int8(test::normal({N, K}, 3, DType::float32));
          for (const Tensor& bias : {b, Tensor()}) {
            const auto got = linear_int8(x, w, bias).values();
            const auto want = define::linear_int8(x, w, bias).values();
            // Sums of K numbers near 1 in another order, and in 16 bits one rounding to a neighbour
            const double sums = 4 * epsilon(DType::float32) * std::sqrt(static_cast<double>(K)) * 4;
            for (size_t i = 0; i < want.size(); ++i)
              REQUIRE(std::abs(got[i] - want[i]) <= sums + epsilon(dtype) * std::abs(want[i]));
          }
        }
}

TEST_CASE("every instruction set multiplies by 8 bits, and threads do not change a bit") {
  const int64_t M = 3, N = 1000, K = 77;
  const Tensor x = test::normal({M, K}, 5, DType::float32), b = test::normal({N}, 6, DType::float32);
  const Int8Matrix w = quantize_int8(test::normal({N, K}, 7, DType::float32));
  const auto want = define::linear_int8(x, w, b).values();
  for (const Isa set : {Isa::portable, Isa::avx2, Isa::avx512}) {
    if (!detail::includes(isa(), set)) continue;
    INFO(name(set));
    const Tensor y = empty({M, N}), one = empty({M, N});
    const auto multiply = [&](const Tensor& to) {
      cpu::gemm_int8_on<float>(set, M, N, K, x.data<float>(), w.levels.data<uint8_t>(), w.scale.data<float>(),
                               b.data<float>(), to.data<float>());
    };
    multiply(y);
    const int before = threads();
    set_threads(1);
    multiply(one);
    set_threads(before);
    CHECK(y.values() == one.values());
    const auto got = y.values();
    for (size_t i = 0; i < want.size(); ++i) REQUIRE(std::abs(got[i] - want[i]) <= 1e-4);
  }
}

TEST_CASE("views are multiplied: leading axes, strides, and some rows of a matrix") {
  const Tensor x = test::normal({2, 3, 10}, 8, DType::float32);
  const Int8Matrix w = quantize_int8(test::normal({6, 10}, 9, DType::float32)), part = w.rows(2, 5);
  const auto close = [](const Tensor& got, const Tensor& want) {
    CHECK(got.shape() == want.shape());
    const auto a = got.values(), b = want.values();
    for (size_t i = 0; i < a.size(); ++i) CHECK(std::abs(a[i] - b[i]) <= 1e-5);
  };
  const Tensor y = linear_int8(x, w);
  close(linear_int8(permute(x, {1, 0, 2}), w), permute(y, {1, 0, 2}));
  close(linear_int8(x, part), slice(y, 2, 2, 5));
  close(linear_int8(select(select(x, 0, 1), 0, 2), w), select(select(y, 0, 1), 0, 2));
  CHECK(linear_int8(zeros({0, 10}), w).shape() == Shape{0, 6});
  CHECK(linear_int8(zeros({3, 0}), quantize_int8(zeros({2, 0})), tensor({1, 2})).values() ==
        std::vector<double>{1, 2, 1, 2, 1, 2});
}

TEST_CASE("wrong arguments and gradients are refused") {
  const Int8Matrix w = quantize_int8(ones({3, 4}));
  CHECK_THROWS_WITH_AS(quantize_int8(ones({3})), doctest::Contains("wanted a floating matrix [N, K]"), Error);
  CHECK_THROWS_WITH_AS(quantize_int8(tensor({1, INFINITY}, {1, 2})),
                       "quantize_int8: the element [0, 1] is inf, wanted a finite number", Error);
  CHECK_THROWS_WITH_AS(linear_int8(ones({2, 5}), w),
                       doctest::Contains("x is [2, 5] and the weight is [3, 4]"), Error);
  CHECK_THROWS_WITH_AS(linear_int8(ones({2, 4}, DType::float64), w), doctest::Contains("wanted float32"),
                       Error);
  CHECK_THROWS_WITH_AS(linear_int8(ones({2, 4}), w, ones({2})), "linear_int8: the bias is [2], wanted [3]",
                       Error);
  CHECK_THROWS_WITH_AS(linear_int8(ones({2, 4}), {}), doctest::Contains("wanted uint8 [N, K]"), Error);
  Tensor x = ones({2, 4});
  x.requires_grad();
  linear_int8(x, w);  // without a tape there is no gradient
  const Tape tape;
  CHECK_THROWS_WITH_AS(linear_int8(x, w), doctest::Contains("a gradient of x is wanted"), Error);
}
