// Every spec row through every check.
#include <doctest/doctest.h>

#include "tests/dtype_of_row.h"
#include "tests/spec/spec.h"

using namespace vitrine;

namespace {

template <class Check>
void for_each_sample(Check&& check) {
  for (const auto& row : spec::rows())
    for (size_t sample = 0; sample < row.samples.size(); ++sample) {
      std::string error;
      try {
        error = check(row, sample);
      } catch (const std::exception& e) {
        error = row.name + ": " + e.what();
      }
      CHECK_MESSAGE(error.empty(), error);
    }
}

/// The dtype that a check runs in: every dtype, but only one in builds with sanitizers, which are
/// slow.
std::optional<DType> dtype_in_turn([[maybe_unused]] const spec::Spec& row, [[maybe_unused]] size_t turn) {
#ifdef VITRINE_SANITIZED
  return test::dtype_of_row(row, turn);
#else
  return {};
#endif
}

}  // namespace

TEST_CASE("each kernel computes what its definition says") {
  for_each_sample([](const auto& row, size_t i) { return spec::check_values(row, i); });
}
TEST_CASE("each gradient agrees with 4-point central differences") {
  for_each_sample([](const auto& row, size_t i) { return spec::check_differences(row, i); });
}
TEST_CASE("each gradient agrees with dual numbers to rounding") {
  for_each_sample([](const auto& row, size_t i) { return spec::check_dual(row, i); });
}
TEST_CASE("second and third derivatives agree with differences of the lower ones") {
  for_each_sample([](const auto& row, size_t i) { return spec::check_higher_orders(row, i); });
}
TEST_CASE("NaN, infinities, very large and very small inputs give in every type what plain functions give") {
  for_each_sample([turn = size_t{0}](const auto& row, size_t i) mutable {
    return spec::check_extremes(row, i, Device::cpu, dtype_in_turn(row, turn++));
  });
}
TEST_CASE("float32, bfloat16 and float16 stay within their units of the float64 result on the same inputs") {
  for_each_sample([](const auto& row, size_t i) { return spec::check_low_precision(row, i); });
}
TEST_CASE("strides of inputs and cotangents change nothing, in any dtype on any instruction set") {
  for_each_sample([turn = size_t{0}](const auto& row, size_t i) mutable {
    return spec::check_layouts(row, i, Device::cpu, dtype_in_turn(row, turn++));
  });
}
TEST_CASE("the bits do not depend on the number of threads, and repeat") {
  for_each_sample([](const auto& row, size_t i) { return spec::check_threads(row, i); });
}

TEST_CASE(
    "every subset of the inputs gets the gradients that all together get, and inputs stay as they are") {
  for_each_sample([](const auto& row, size_t i) { return spec::check_subsets(row, i); });
}
