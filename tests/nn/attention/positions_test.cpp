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
