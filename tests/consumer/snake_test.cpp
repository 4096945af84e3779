// The op passes the same checks as the library's own ops.
#include "snake.h"

#include <doctest/doctest.h>
#include <vitrine/tests/spec/spec.h>

#include <string>

using namespace vitrine;

namespace {

const spec::Spec kRow = {
    .name = "snake",
    .call = [](const std::vector<Tensor>& x) { return outside::snake(x[0], 1.5); },
    .samples = {{{{3, 5}}}, {{{37}, -4, 4}}},
    .largest = 4,
    .reason = "f·x is rounded: an error of the angle that grows with x",
    .on_gpu = false,
};

}  // namespace

TEST_CASE("the op passes every check of the library's own") {
  const std::string errors = spec::check_all({kRow});
  CHECK_MESSAGE(errors.empty(), errors);
}

TEST_CASE("errors name op and argument") {
  CHECK_THROWS_WITH(outside::snake(Tensor(1), -1), "snake: the frequency is -1, wanted a number above 0");
}
