#include "core/creation.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <span>

using namespace vitrine;

namespace {

using V = std::vector<double>;

template <class T>
void check_elements(DType dtype) {
  std::vector<T> values;
  for (const double v : {0, 1, 1, 0, 1, 1}) values.push_back(T(static_cast<float>(v)));
  const Tensor x = tensor(values, {2, 3});
  CHECK(x.dtype() == dtype);
  CHECK(x.shape() == Shape{2, 3});
  CHECK(x.values() == V{0, 1, 1, 0, 1, 1});
  CHECK(x.data<T>() != values.data());
  const Tensor part = tensor(std::span<const T>(values).subspan(1, 2), {2}, DType::float64);
  CHECK(part.dtype() == DType::float64);
  CHECK(part.values() == V{1, 1});
}

}  // namespace

TEST_CASE("a tensor of a span or vector has the dtype of the elements unless another is given") {
  check_elements<float>(DType::float32);
  check_elements<double>(DType::float64);
  check_elements<bfloat16>(DType::bfloat16);
  check_elements<float16>(DType::float16);
  check_elements<int64_t>(DType::int64);
  check_elements<int32_t>(DType::int32);
  check_elements<uint8_t>(DType::uint8);
  const std::array<bool, 2> truths = {true, false};
  CHECK(tensor(truths, {2}).dtype() == DType::boolean);
  CHECK(tensor(truths, {2}).values() == V{1, 0});
  CHECK(tensor(std::vector<float>{}, {0, 3}).shape() == Shape{0, 3});
}

TEST_CASE("a tensor of a list of numbers is float32 unless elements or a dtype are named") {
  CHECK(tensor({1, 2}, {2, 1}).dtype() == DType::float32);
  CHECK(tensor({1.5, 2}).dtype() == DType::float32);
  CHECK(tensor({1, 2}, {2}, DType::float64).dtype() == DType::float64);
  CHECK(tensor<double>({1, 2}, {2}).dtype() == DType::float64);
  CHECK(tensor<uint8_t>({1, 255}, {2}).values() == V{1, 255});
}

TEST_CASE("int64 elements do not go through double") {
  const int64_t large = (int64_t{1} << 62) + 1;
  CHECK(tensor(std::vector<int64_t>{large}, {1}).data<int64_t>()[0] == large);
}
