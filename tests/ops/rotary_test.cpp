#include "ops/rotary.h"

#include <cstring>

#include "core/tape.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/view.h"
#include "tests/ops/reference.h"

namespace vitrine::test {
namespace {

struct Angles {
  Tensor cosine, sine;
};

Angles angles(const Shape& shape, DType dtype) {
  const Tensor angle = random(shape, 2, DType::float64, -4, 4);
  return {copy_as(cos(angle), dtype), copy_as(sin(angle), dtype)};
}

/// A row's channels as heads, [B, H, T, D] over [B, T, H·D].
Tensor heads(const Tensor& x, int64_t count) {
  return permute(reshape(x, {x.size(0), x.size(1), count, -1}), {0, 2, 1, 3});
}

TEST_CASE("rotary has the bits of its definition, forward and backward") {
  for (const DType dtype : {DType::float32, DType::float64})
    for (const bool interleaved : {false, true})
      for (const int64_t pairs : {1, 3, 8, 37})
        for (const int64_t rest : {0, 1, 4}) {
          INFO(name(dtype), ", interleaved ", interleaved, ", ", pairs, " pairs and ", rest);
          const int64_t size = 2 * pairs + rest;
          const auto [cosine, sine] = angles({5, pairs}, dtype);
          const Tensor row = random({2, 5, 3 * size}, 3, dtype), dy = random({2, 3, 5, size}, 4, dtype);
          const auto run = [&, c = cosine, s = sine](auto rotate) {
            Tape tape;
            tape.watch(row);
            const Tensor y = rotate(heads(row, 3), c, s, interleaved);
            return std::pair{y, tape.gradient({y}, {row}, {dy})[0]};
          };
          const auto got = run(rotary), want = run(define::rotary);
          CHECK(same_bits(got.first, want.first));
          CHECK(same_bits(got.second, want.second));
        }
}

TEST_CASE("16-bit channels are turned in float32 by angles that are not rounded") {
  for (const DType dtype : {DType::bfloat16, DType::float16})
    for (const bool interleaved : {false, true}) {
      const auto [cosine, sine] = angles({5, 9}, DType::float32);
      const Tensor x = random({2, 5, 20}, 5, dtype);
      const Tensor want = copy_as(rotary(copy_as(x, DType::float32), cosine, sine, interleaved), dtype);
      CHECK(same_bits(rotary(x, cosine, sine, interleaved), want));
      CHECK(same_bits(define::rotary(x, cosine, sine, interleaved), want));
    }
}

TEST_CASE("heads lie in the result as in the row that they were split from") {
  const auto [cosine, sine] = angles({5, 4}, DType::float32);
  Tape tape;
  const Tensor row = tape.watch(random({2, 5, 3 * 8}, 6)), x = heads(row, 3);
  const Tensor y = rotary(x, cosine, sine);
  CHECK(y.strides() == x.strides());
  const Tensor dx = tape.gradient({y}, {x}, {random({2, 3, 5, 8}, 7)})[0];
  CHECK(dx.strides() == x.strides());
  // Rows stay contiguous if other axes do not, and repeated rows are written one by one.
  CHECK(rotary(transpose(random({8, 5}, 8)), cosine, sine).is_contiguous());
  CHECK(rotary(expand(random({1, 8}, 9), {5, 8}), cosine, sine).is_contiguous());
}

TEST_CASE("angles that are learned have gradients") {
  const auto [cosine, sine] = angles({5, 4}, DType::float64);
  const Tensor x = random({5, 8}, 10, DType::float64), dy = random({5, 8}, 11, DType::float64);
  for (const int order : {1, 2}) {
    Tape tape({.order = order});
    tape.watch(sine);
    const Tensor got = tape.gradient({rotary(x, cosine, sine)}, {sine}, {dy})[0];
    const auto half = [](const Tensor& t, int64_t from) { return slice(t, 1, from, from + 4); };
    const Tensor want = half(dy, 4) * half(x, 0) - half(dy, 0) * half(x, 4);
    CHECK(same_bits(got, want));
  }
}

TEST_CASE("errors of rotary name what does not fit") {
  const Tensor x = empty({2, 5, 6});
  const auto error = [&](const Tensor& x, const Shape& cosine, const Shape& sine) {
    return error_of([&] { rotary(x, empty(cosine), empty(sine)); });
  };
  CHECK(error(x, {5, 4}, {5, 4}) == "rotary: 4 pairs of channels are more than x [2, 5, 6] has");
  CHECK(error(x, {5, 2}, {5, 3}) ==
        "rotary: a table of angles is [5, 3], wanted [2, 5, 2] or what broadcasts to it, for x [2, 5, 6]");
  CHECK(error(x, {4, 3}, {4, 3}).find("[4, 3]") != std::string::npos);
  CHECK(error(x, {5, 0}, {5, 0}) == "rotary: cosine is [5, 0], wanted [.., pairs of channels]");
  CHECK(error(empty({5, 6}, DType::int64), {3}, {3}).find("rotary: x is int64") != std::string::npos);
}

}  // namespace
}  // namespace vitrine::test
