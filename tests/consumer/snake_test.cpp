// The op is held to what the library's own are held to.
#include "snake.h"

#include <doctest/doctest.h>
#include <vitrine/tests/spec/spec.h>

#include <exception>
#include <string>

using namespace vitrine;

namespace {

const spec::Spec kRow = {"snake",
                         [](const std::vector<Tensor>& x) { return outside::snake(x[0], 1.5); },
                         {{{{3, 5}}}, {{{37}, -4, 4}}}};

template <class Check>
void each_sample(Check&& check) {
  for (size_t sample = 0; sample < kRow.samples.size(); ++sample) {
    const std::string error = check(kRow, sample);
    CHECK_MESSAGE(error.empty(), error);
  }
}

}  // namespace

TEST_CASE("the kernel computes the definition") { each_sample(spec::check_values); }
TEST_CASE("the gradient agrees with differences") {
  each_sample([](const auto& row, size_t i) { return spec::check_differences(row, i); });
}
TEST_CASE("the gradient agrees with dual numbers") {
  each_sample([](const auto& row, size_t i) { return spec::check_dual(row, i); });
}
TEST_CASE("second and third derivatives") { each_sample(spec::check_higher_orders); }
TEST_CASE("float32 and bfloat16") { each_sample(spec::check_low_precision); }
TEST_CASE("strided inputs") { each_sample(spec::check_layouts); }
TEST_CASE("threads") { each_sample(spec::check_threads); }

TEST_CASE("errors name op and argument") {
  CHECK_THROWS_WITH(outside::snake(Tensor(1), -1), "snake: the frequency is -1, wanted a number above 0");
}
