// Soft alignment and attention flow of two sequences, and memory tokens before one.
#include "nn/attention/alignment.h"

#include <doctest/doctest.h>

#include "core/creation.h"
#include "core/gradcheck/check_gradients.h"
#include "nn/attention/memory_tokens.h"
#include "nn/attention/parts/laser.h"
#include "nn/check_gradients.h"
#include "nn/transformer/stack.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "tests/ops/reference.h"

using namespace vitrine;
using namespace vitrine::nn;

namespace {

Tensor mask(const std::vector<double>& seen, const Shape& shape) {
  return tensor(seen, shape, DType::boolean);
}

}  // namespace

TEST_CASE(
    "soft alignment: padding of the other side is as if it were not there, and the sides are symmetric") {
  const Tensor a = test::normal({2, 3, 4}, 1), b = test::normal({2, 5, 4}, 2);
  const Tensor b_mask = mask({1, 1, 1, 0, 0, 1, 1, 1, 0, 0}, {2, 5});
  const auto both = soft_alignment(a, b, {}, b_mask);
  CHECK(both.a.shape() == Shape{2, 3, 16});
  CHECK(both.b.shape() == Shape{2, 5, 16});
  CHECK(test::distance(both.a, soft_alignment(a, slice(b, 1, 0, 3)).a) < 1e-14);
  CHECK(test::distance(soft_alignment(b, a, b_mask).b, both.a) < 1e-14);
  // One visible position is what every position is aligned with.
  const auto one = soft_alignment(a, b, {}, mask({0, 1, 0, 0, 0, 0, 1, 0, 0, 0}, {2, 5})).a;
  CHECK(test::distance(slice(one, 2, 4, 8), expand(slice(b, 1, 1, 2), {2, 3, 4})) < 1e-15);
  const auto none = soft_alignment(a, b, {}, zeros({2, 5}, DType::boolean)).a;
  CHECK(test::distance(none, concat({a, zeros_like(a), a, zeros_like(a)}, -1)) == 0);
  const auto by_laser = soft_alignment(a, b, {}, b_mask, LaserReadOut());
  CHECK(test::distance(slice(by_laser.a, 2, 4, 8), log(matmul(both.a_weights, exp(b)))) < 1e-14);
  CHECK(test::distance(slice(by_laser.b, 2, 4, 8), log(matmul(both.b_weights, exp(a)))) < 1e-14);
  const auto laser_none = soft_alignment(a, b, {}, zeros({2, 5}, DType::boolean), LaserReadOut()).a;
  CHECK(test::distance(laser_none, none) == 0);
  const auto report = check_gradients(
      [&](const std::vector<Tensor>& x) {
        const auto y = soft_alignment(x[0], x[1], {}, b_mask);
        return concat({y.a, y.b}, 1);
      },
      {a, b});
  CHECK_MESSAGE(report.passed, to_string(report));
  CHECK_THROWS_WITH_AS(soft_alignment(a, test::normal({2, 5, 3}, 3)),
                       doctest::Contains("wanted [B, T, C] and [B, S, C]"), Error);
  CHECK_THROWS_WITH_AS(soft_alignment(a, b, b_mask), doctest::Contains("wanted bool [2, 3]"), Error);
}

TEST_CASE("attention flow: padding, the largest score of each row, gradients, and errors") {
  AttentionFlow flow(4);
  flow.to(DType::float64);
  const Tensor h = test::normal({2, 3, 4}, 1), u = test::normal({2, 5, 4}, 2);
  const Tensor h_mask = mask({1, 1, 0, 1, 1, 0}, {2, 3}),
               u_mask = mask({1, 1, 1, 1, 0, 1, 1, 1, 1, 0}, {2, 5});
  const auto report = check_gradients(
      flow, [&](const std::vector<Tensor>& x) { return flow.forward(x[0], x[1], h_mask, u_mask); }, {h, u});
  CHECK_MESSAGE(report.passed, to_string(report));
  const Tensor y = flow.forward(h, u, h_mask, u_mask);
  CHECK(test::distance(slice(y, 1, 0, 2), flow.forward(slice(h, 1, 0, 2), slice(u, 1, 0, 4))) < 1e-14);
  // With w = 0 all scores are equal: both reads are means.
  flow.weight.assign(zeros({12}, DType::float64));
  const Tensor means = flow.forward(h, u);
  CHECK(test::distance(slice(means, 2, 4, 8), expand(mean(u, {1}, KeepAxes::yes), {2, 3, 4})) < 1e-14);
  CHECK(test::distance(slice(means, 2, 12, 16), h * mean(h, {1}, KeepAxes::yes)) < 1e-14);
  CHECK(test::distance(flow.clone().forward(h, u), means) == 0);
  const Tensor by_laser = flow.attend(h, u, {}, {}, LaserReadOut()).y;
  CHECK(test::distance(slice(by_laser, 2, 4, 8), expand(log(mean(exp(u), {1}, KeepAxes::yes)), {2, 3, 4})) <
        1e-13);
  CHECK(test::distance(slice(by_laser, 2, 12, 16), h * log(mean(exp(h), {1}, KeepAxes::yes))) < 1e-13);
  // A question without words: LASER reads 0, as the mean does.
  const Tensor none =
      flow.attend(h * 100.0, u, {}, mask({1, 1, 1, 1, 1, 0, 0, 0, 0, 0}, {2, 5}), LaserReadOut()).y;
  CHECK(test::distance(slice(slice(none, 0, 1), 2, 4), zeros({1, 3, 12}, DType::float64)) == 0);
  CHECK_THROWS_WITH_AS(flow.forward(test::normal({2, 3, 2}, 1), test::normal({2, 3, 2}, 2)),
                       doctest::Contains("wanted [B, T, 4]"), Error);
  CHECK_THROWS_WITH_AS(AttentionFlow(0), doctest::Contains("wanted at least 1"), Error);
}

TEST_CASE(
    "memory tokens: decoding gives the full pass; masks and lengths of the joined sequence; gradients") {
  MemoryTokens memory(2, 8);
  memory.to(DType::float64);
  StackOptions options{.block = {.mixer = {.width = 8, .heads = 2, .context = 16, .out_deviation = 0.4}},
                       .layers = 2};
  Decoder decoder(options);
  Encoder encoder(options);
  decoder.to(DType::float64), encoder.to(DType::float64);
  const Tensor x = test::normal({2, 5, 8}, 1), whole = decoder.forward(memory.before(x));
  CHECK(whole.shape() == Shape{2, 7, 8});
  const auto state = decoder.make_state(2, 7);
  const auto step = [&](const Tensor& part) { return decoder.forward(part, {.state = state.get()}); };
  CHECK(test::distance(memory.rest(step(memory.before(slice(x, 1, 0, 2)))), slice(whole, 1, 2, 4)) < 1e-13);
  for (int64_t t = 2; t < 5; ++t)
    CHECK(test::distance(step(slice(x, 1, t, t + 1)), slice(whole, 1, t + 2, t + 3)) < 1e-13);
  // A row that is shorter, by lengths and by a mask, gives what it gives alone.
  const Tensor short_row = slice(slice(x, 0, 1, 2), 1, 0, 3);
  const Tensor alone = memory.rest(encoder.forward(memory.before(short_row)));
  const Tensor lengths = index_tensor(std::vector<int64_t>{5, 3}, {2});
  const Tensor by_lengths =
      memory.rest(encoder.forward(memory.before(x), {.lengths = memory.lengths(lengths)}));
  const int64_t counts[] = {5, 3};
  AttentionMask padded{.allowed = padding_mask(counts, 5), .bias = zeros({5, 5}, DType::float64)};
  const Tensor by_mask = memory.rest(encoder.forward(memory.before(x), {.mask = memory.before(padded, 5)}));
  for (const Tensor& y : {by_lengths, by_mask})
    CHECK(test::distance(slice(slice(y, 0, 1, 2), 1, 0, 3), alone) < 1e-13);
  const Tensor pairs = memory.before(AttentionMask{.allowed = cast(eye(5), DType::boolean)}, 5).allowed;
  CHECK(sum(pairs).item() == 7 * 7 - 5 * 5 + 5);
  const auto report = check_gradients(
      memory, [&](const std::vector<Tensor>& t) { return encoder.forward(memory.before(t[0])); },
      {slice(x, 0, 0, 1)});
  CHECK_MESSAGE(report.passed, to_string(report));
  CHECK(memory.before(AttentionMask{.left = 1, .first = 1}, 5).first == 1 + memory.tokens.shape()[0]);
  CHECK(memory.before(AttentionMask{.left = 1}, 5).first == 0);
  CHECK(test::distance(memory.clone().before(x), memory.before(x)) == 0);
  CHECK_THROWS_WITH_AS(MemoryTokens(0, 8), doctest::Contains("wanted numbers above 0"), Error);
  CHECK_THROWS_WITH_AS(memory.before(test::normal({2, 5, 6}, 1)), doctest::Contains("wanted [B, T, 8]"),
                       Error);
  CHECK_THROWS_WITH_AS(memory.before(padded, 4), doctest::Contains("wanted [.., 4 or 1, 4]"), Error);
}
