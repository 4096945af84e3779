#include "nn/attention/positions.h"

#include <cmath>

#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/view.h"
#include "tests/ops/reference.h"

namespace vitrine::test {
namespace {

TEST_CASE("rotating by tables of angles equals rotating by positions") {
  const Tensor x = random({2, 3, 5, 6}, 1, DType::float64);
  std::vector<double> cosine, sine;
  for (int64_t position = 4; position < 9; ++position)
    for (int64_t i = 0; i < 2; ++i) {
      const double angle = static_cast<double>(position) * std::pow(10000, -static_cast<double>(i) / 2);
      cosine.push_back(std::cos(angle)), sine.push_back(std::sin(angle));
    }
  for (bool interleaved : {false, true}) {
    const nn::RotaryOptions o{.size = 4, .interleaved = interleaved};
    const Tensor c = tensor(cosine, {5, 2}, DType::float64), s = tensor(sine, {5, 2}, DType::float64);
    CHECK(nn::rotate(x, c, s, o).values() == nn::rotate(x, 4, o).values());
  }
}

TEST_CASE("positions have the angles of their own, whatever was asked for before") {
  const auto want = [](int64_t position, int64_t channel) {
    const double a = static_cast<double>(position) * std::pow(10000, -static_cast<double>(channel / 2) / 3);
    return channel % 2 ? std::cos(a) : std::sin(a);
  };
  for (const int64_t first : {0, 7, 2, 300, 5, -4, 1'000'000'000}) {
    INFO("from ", first);
    Tensor rows = nn::sinusoidal_positions(3, 6, 10000, first, DType::float64);
    for (int64_t p = 0; p < 3; ++p)
      for (int64_t i = 0; i < 6; ++i) CHECK(rows.data<double>()[p * 6 + i] == want(first + p, i));
    rows.data<double>()[0] = 9;  // is the caller's own
    const Tensor ones = full({3, 6}, 1, DType::float64), turned = nn::rotate(ones, first);
    for (int64_t p = 0; p < 3; ++p)
      for (int64_t i = 0; i < 3; ++i)
        CHECK(turned.data<double>()[p * 6 + i] == want(first + p, 2 * i + 1) - want(first + p, 2 * i));
  }
  CHECK(nn::rotate(full({3, 6}, 1), 0).dtype() == DType::float32);
  CHECK(nn::rotate(full({1, 6}, 1, DType::float64), 1, {.base = 10}).values() !=
        nn::rotate(full({1, 6}, 1, DType::float64), 1).values());
}

TEST_CASE("rotations for longer sequences: divided positions, or a slower last pair and the same first") {
  const Tensor x = random({1, 6}, 3, DType::float64);
  CHECK(nn::rotate(x, 8, {.linear = 4}).values() == nn::rotate(x, 2).values());
  CHECK(nn::rotate(x, tensor({8}, DType::int64), {.linear = 4}).values() == nn::rotate(x, 2).values());
  // Cosines of the angles. Pair i turns by 10000^(−i/3) a position, the last by a third of that.
  const Tensor one = tensor({1, 1, 1, 0, 0, 0}, {1, 6}, DType::float64);
  const auto cosines = nn::rotate(one, 5, {.ntk = 3}).values();
  CHECK(cosines[0] == std::cos(5.0));
  CHECK(cosines[2] == doctest::Approx(std::cos(5 * std::pow(10000, -2.0 / 3) / 3)).epsilon(1e-14));
  const double middle = std::pow(10000 * std::pow(3, 6.0 / 4), -1.0 / 3);
  CHECK(cosines[1] == doctest::Approx(std::cos(5 * middle)).epsilon(1e-14));
  CHECK(error_of([&] { nn::rotate(x, 0, {.size = 2, .ntk = 2}); }) ==
        "rotate: ntk is 2, wanted 1 for a single pair, which has no slower one");
  CHECK(error_of([&] { nn::rotate(x, 0, {.linear = 0}); }) ==
        "rotate: linear is 0 and ntk 1, wanted numbers above 0");
}

TEST_CASE("tables may differ within a batch") {
  const Tensor x = random({2, 3, 1, 2}, 2, DType::float64);
  // The first row of the batch is not rotated, the second by a quarter turn.
  const Tensor cosine = tensor({1, 0}, {2, 1, 1, 1}, DType::float64),
               sine = tensor({0, 1}, {2, 1, 1, 1}, DType::float64);
  const Tensor y = nn::rotate(x, cosine, sine);
  CHECK(select(y, 0, 0).values() == select(x, 0, 0).values());
  const Tensor second = select(x, 0, 1);
  const Tensor turned = concat({-slice(second, -1, 1), slice(second, -1, 0, 1)}, -1);
  CHECK(distance(select(y, 0, 1), turned) == 0);
}

TEST_CASE("errors name the table and the channels") {
  const Tensor x = empty({2, 5, 6});
  CHECK(error_of([&] {
          nn::rotate(x, empty({5, 2}), empty({5, 3}));
        }) ==
        "rotate: a table of angles is [5, 2], wanted [2, 5, 3] or what broadcasts to it, for 6 channels of "
        "[2, 5, 6]");
  CHECK(error_of([&] { nn::rotate(x, empty({4, 3}), empty({4, 3})); }).find("[4, 3]") != std::string::npos);
  CHECK(error_of([&] {
          nn::rotate(empty({5, 3}), empty({5, 1}), empty({5, 1}));
        }) == "rotate: 3 of 3 channels cannot be rotated in pairs: wanted an even number");
  CHECK(error_of([&] { nn::rotate(empty({4}), empty({2}), empty({2})); }) ==
        "rotate: x has the shape [4], wanted [.., T, D]");
}

}  // namespace
}  // namespace vitrine::test
