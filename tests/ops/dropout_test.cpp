#include "ops/dropout.h"

#include <cmath>

#include "core/philox.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "tests/ops/reference.h"

namespace vitrine::test {
namespace {

using V = std::vector<double>;

TEST_CASE("element i is dropped where its Philox uniform is below p, the others are scaled") {
  for (DType dtype : {DType::float64, DType::float32, DType::bfloat16, DType::float16})
    for (double p : {0.1, 0.25, 0.5, 0.9})
      for (int64_t n : {1, 7, 64, 70, 40000}) {
        const Tensor x = random({n}, 1, dtype, 1, 2);
        Generator generator(42);
        generator.set(42, 5);
        const V y = dropout(x, p, generator).values(), values = x.values();
        CHECK(generator.offset() == 5 + static_cast<uint64_t>((n + 3) / 4));
        double worst = 0;
        for (size_t i = 0; i < values.size(); ++i) {
          const double u = to_uniform(philox(42, 5 + i / 4)[i % 4]);
          const double want = u < p ? 0 : values[i] / (1 - p);
          worst = std::max(worst, std::abs(y[i] - want));
          if ((y[i] == 0) != (u < p)) worst = INFINITY;
        }
        CHECK(worst <= 2 / (1 - p) * epsilon(dtype));
      }
}

TEST_CASE("an element whose uniform equals p is kept") {
  Generator generator(42);
  const double u = to_uniform(philox(42, 0)[0]);
  CHECK(dropout(ones({1}), u, generator).item() != 0);
  generator.set(42);
  CHECK(dropout(ones({1}), u + 0x1p-24, generator).item() == 0);
}

TEST_CASE("the definition draws the same mask") {
  const Tensor x = random({3, 111}, 2);
  Generator generator(7);
  CHECK(distance(dropout(x, 0.3, generator), define::dropout(x, 0.3, {7, 0})) < 1e-15);
}

TEST_CASE("the backward drops what the forward dropped; its derivatives go through the definition") {
  const Tensor x = random({5, 13}, 3);
  const auto f = [](const std::vector<Tensor>& v) {
    Generator generator(11);
    return dropout(square(v[0]), 0.4, generator);
  };
  CHECK(gradient_error(f, {x}) < 1e-7);
  Tape tape;
  const Tensor w = tape.watch(x);
  Generator generator(12);
  const Tensor y = dropout(w, 0.5, generator);
  const V dx = tape.gradient({y}, {w}, {ones_like(y)})[0].values();
  for (size_t i = 0; i < dx.size(); ++i) CHECK(dx[i] == (y.values()[i] == 0 ? 0 : 2));
}

TEST_CASE("p = 0 changes nothing and draws nothing, p = 1 drops everything, NaN and infinity too") {
  Generator generator(1);
  const Tensor x = tensor({1, std::nan(""), INFINITY});
  CHECK(dropout(x, 0, generator).is_same(x));
  CHECK(generator.offset() == 0);
  CHECK(dropout(x, 1, generator).values() == V{0, 0, 0});
  CHECK(distance(define::dropout(x, 1, {}), zeros({3})) == 0);
}

TEST_CASE("the mean is kept, and masks differ from call to call") {
  Generator generator(3);
  const Tensor x = ones({100000}), first = dropout(x, 0.3, generator), second = dropout(x, 0.3, generator);
  CHECK(std::abs(mean(first).item() - 1) < 0.01);  // 4.8 standard deviations
  CHECK(distance(first, second) > 0.1);
}

TEST_CASE("views and empty tensors") {
  const Tensor x = random({4, 6}, 4);
  Generator a(5), b(5);
  CHECK(dropout(transpose(x), 0.5, a).values() ==
        dropout(copy_as(transpose(x), DType::float64), 0.5, b).values());
  CHECK(dropout(empty({0, 3}), 0.5).shape() == Shape{0, 3});
}

TEST_CASE("the result does not depend on the number of threads") {
  const Tensor x = random({100003}, 6, DType::float32);
  CHECK(same_on_any_threads([&] {
    Generator generator(9);
    return std::vector<Tensor>{dropout(x, 0.1, generator)};
  }));
}

TEST_CASE("errors name p and the dtype") {
  CHECK(error_of([] { dropout(ones({2}), 1.5); }) == "dropout: p is 1.5, wanted a probability of 0 to 1");
  CHECK(error_of([] { dropout(ones({2}), std::nan("")); }).starts_with("dropout: p is nan"));
  CHECK(error_of([] { dropout(ones({2}, DType::int32), 0.5); }).starts_with("dropout: x is int32[2]"));
}

}  // namespace
}  // namespace vitrine::test
