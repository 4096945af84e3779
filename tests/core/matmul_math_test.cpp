// Products of float32 matrices whose operands are rounded to bfloat16.
#include "core/matmul_math.h"

#include <doctest/doctest.h>

#include <functional>
#include <thread>

#include "core/creation.h"
#include "core/recompute.h"
#include "core/tape.h"
#include "ops/activation.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "tests/ops/reference.h"

using namespace vitrine;

namespace {

/// x rounded to bfloat16, in float64.
Tensor coarse(const Tensor& x) { return cast(cast(x, DType::bfloat16), DType::float64); }

const Tensor kX = test::normal({5, 7, 33}, 1, DType::float32), kW = test::normal({20, 33}, 2, DType::float32),
             kB = test::normal({20}, 3, DType::float32), kUp = test::normal({5, 7, 20}, 4, DType::float32);

/// The loss Σ up·f(x, w, b), and the gradients of x and w.
std::vector<Tensor> run(const std::function<Tensor(const Tensor&, const Tensor&, const Tensor&)>& f) {
  Tape tape;
  const Tensor x = tape.watch(kX), w = tape.watch(kW), b = tape.watch(kB);
  const Tensor y = f(x, w, b);
  std::vector<Tensor> result = tape.gradient({y}, {x, w, b}, {kUp});
  result.insert(result.begin(), y);
  return result;
}

constexpr double kRounding = 2e-5;  // of float32 sums

}  // namespace

TEST_CASE("with MatmulMath::bfloat16 products have the rounded operands, and sums of float32") {
  const MatmulMathScope scope(MatmulMath::bfloat16);
  CHECK(test::largest_difference(matmul(kX, transpose(kW)), matmul(coarse(kX), transpose(coarse(kW)))) <
        kRounding);
  // Batches, both transposed, and vectors
  const Tensor a = test::normal({3, 9, 17}, 5, DType::float32),
               b = test::normal({3, 11, 9}, 6, DType::float32);
  CHECK(test::largest_difference(matmul(transpose(a), transpose(b)),
                                 matmul(transpose(coarse(a)), transpose(coarse(b)))) < kRounding);
  const Tensor v = test::normal({33}, 7, DType::float32);
  CHECK(test::largest_difference(matmul(kX, v), matmul(coarse(kX), coarse(v))) < kRounding);
  CHECK(matmul(kX, v).dtype() == DType::float32);
}

TEST_CASE("with MatmulMath::bfloat16 a layer and its gradients have rounded operands, and an exact bias") {
  for (const bool activated : {false, true}) {
    INFO("activated ", activated);
    std::vector<Tensor> got;
    {
      const MatmulMathScope scope(MatmulMath::bfloat16);
      got = run([&](const Tensor& x, const Tensor& w, const Tensor& b) {
        return activated ? linear_gelu_tanh(x, w, b) : linear(x, w, b);
      });
    }
    const Tensor h = linear(coarse(kX), coarse(kW), cast(kB, DType::float64));
    CHECK(test::largest_difference(got[0], activated ? gelu_tanh(h) : h) < kRounding);
    // The gradient before the product, from the layer's own numbers
    Tensor up = kUp;
    if (activated) {
      Tape tape;
      const Tensor before = tape.watch(cast(h, DType::float32));
      up = tape.gradient({gelu_tanh(before)}, {before}, {kUp})[0];
    }
    const Tensor dy = coarse(flatten(up, 0, -2));
    CHECK(test::largest_difference(got[1], reshape(matmul(dy, coarse(kW)), kX.shape())) <
          (activated ? 0.02 : kRounding));
    CHECK(test::largest_difference(got[2], matmul(transpose(dy), coarse(flatten(kX, 0, -2)))) <
          (activated ? 0.02 : kRounding));
    CHECK(test::largest_difference(got[3], sum(cast(flatten(up, 0, -2), DType::float64), {0})) < kRounding);
  }
}

TEST_CASE("a gradient is multiplied as its forward was, whatever holds when backward runs") {
  const auto gradients = [](MatmulMath forward, MatmulMath backward) {
    Tape tape;
    const Tensor x = tape.watch(kX), w = tape.watch(kW),
                 out = tape.watch(test::normal({4, 20}, 8, DType::float32));
    Tensor y;
    {
      const MatmulMathScope scope(forward);
      y = linear(matmul(x, transpose(w)), out);
    }
    const MatmulMathScope scope(backward);
    return tape.gradient({sum(y)}, {x, w, out});
  };
  for (const MatmulMath forward : {MatmulMath::float32, MatmulMath::bfloat16}) {
    const auto same = gradients(forward, forward);
    for (const MatmulMath backward : {MatmulMath::float32, MatmulMath::bfloat16}) {
      const auto got = gradients(forward, backward);
      for (size_t i = 0; i < got.size(); ++i) CHECK(got[i].values() == same[i].values());
    }
  }
  CHECK(gradients(MatmulMath::float32, MatmulMath::float32)[0].values() !=
        gradients(MatmulMath::bfloat16, MatmulMath::float32)[0].values());
}

TEST_CASE("a second run multiplies as the first, whatever holds when backward runs") {
  const auto gradients = [](bool again, MatmulMath forward, MatmulMath backward) {
    Tape tape;
    const Tensor x = tape.watch(kX), w = tape.watch(kW);
    const auto f = [&] { return square(linear(square(x), w)); };
    Tensor y;
    {
      const MatmulMathScope scope(forward);
      y = again ? recompute(f) : f();
    }
    const MatmulMathScope scope(backward);
    std::vector<Tensor> result = tape.gradient({sum(y)}, {x, w});
    CHECK(matmul_math() == backward);
    return result;
  };
  for (const MatmulMath forward : {MatmulMath::float32, MatmulMath::bfloat16})
    for (const MatmulMath backward : {MatmulMath::float32, MatmulMath::bfloat16}) {
      const auto want = gradients(false, forward, forward), got = gradients(true, forward, backward);
      for (size_t i = 0; i < got.size(); ++i) CHECK(got[i].values() == want[i].values());
    }
}

TEST_CASE(
    "MatmulMath::bfloat16 is never the default, ends with its scope, and concerns one thread and float32") {
  CHECK(matmul_math() == MatmulMath::float32);
  const Tensor exact = matmul(kX, transpose(kW)), wide = cast(kX, DType::float64);
  const Tensor of_wide = matmul(wide, transpose(cast(kW, DType::float64)));
  {
    const MatmulMathScope outer(MatmulMath::bfloat16);
    CHECK(matmul_math() == MatmulMath::bfloat16);
    {
      const MatmulMathScope inner(MatmulMath::float32);
      CHECK(matmul(kX, transpose(kW)).values() == exact.values());
    }
    CHECK(matmul(kX, transpose(kW)).values() != exact.values());
    CHECK(matmul(wide, transpose(cast(kW, DType::float64))).values() == of_wide.values());
    MatmulMath of_thread = MatmulMath::bfloat16;
    std::thread([&] { of_thread = matmul_math(); }).join();
    CHECK(of_thread == MatmulMath::float32);
  }
  CHECK(matmul(kX, transpose(kW)).values() == exact.values());
  CHECK(matmul_math_of("bfloat16") == MatmulMath::bfloat16);
  CHECK_THROWS_WITH_AS(matmul_math_of("tf32"),
                       "the math of products is tf32: wanted one of float32, bfloat16", Error);
}
