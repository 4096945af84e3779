// The positions of the elements of strided tensors: divisions by sizes, and loops over axes.
#include "cuda/strided.h"

#include <doctest/doctest.h>

#include "core/creation.h"

using namespace vitrine;

TEST_CASE("a divisor gives the quotient of integers, up to the largest, by sizes of every kind") {
  const uint32_t most = INT32_MAX;
  for (const uint32_t d : {1u, 2u, 3u, 5u, 7u, 10u, 127u, 128u, 641u, 1000003u, (1u << 30) - 1, 1u << 30,
                           (1u << 30) + 1, most - 1, most}) {
    const cuda::Divisor by(d);
    int64_t wrong = 0;
    const auto compare = [&](uint64_t n) {
      if (n <= most) wrong += by.quotient(static_cast<uint32_t>(n)) != n / d;
    };
    for (uint64_t n = 0; n < 5000; ++n) compare(n), compare(most - n);
    for (uint64_t k = 1; k < 5000; ++k)  // around multiples
      for (const uint64_t n : {k * d - 1, k * d, most / d * d - k, most / d * d + k}) compare(n);
    CHECK(wrong == 0);
  }
}

TEST_CASE(
    "elements of tensors with odd sizes are found where their strides say, below and beyond 2^31 elements") {
  const Tensor x = zeros({1 << 18}, DType::float32, Device::cuda);
  for (const Shape& shape :
       {Shape{3, 5, 7}, Shape{641, 3, 1009}, Shape{129, 4099, 4057}, Shape{6, 32771, 65537}}) {
    INFO(shape);
    const auto layout = cuda::Strided<2>::of(x.alias(shape, {0, 1, 0}), x.alias(shape, {1, 0, 2}));
    CHECK(layout.rank == 3);  // no two axes join
    CHECK(layout.narrow == (layout.count < int64_t{1} << 31));
    int64_t wrong = 0;
    for (int64_t k = 0; k < 20000; ++k)
      for (const int64_t i :
           {k % layout.count, layout.count - 1 - k % layout.count, k * 999983 % layout.count}) {
        int64_t at[2];
        layout.locate(i, at);
        wrong += at[0] != i / shape[2] % shape[1];
        wrong += at[1] != i / shape[2] / shape[1] + 2 * (i % shape[2]);
      }
    CHECK(wrong == 0);
  }
}
