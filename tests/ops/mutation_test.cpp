// A mistake planted in any backward makes the checks fail: a flipped sign, a factor of 1.01, or one
// input's gradient set to zero.
#include <doctest/doctest.h>

#include "ops/activation.h"
#include "ops/elementwise.h"
#include "tests/spec/spec.h"

using namespace vitrine;

TEST_CASE("each backward with a planted mistake fails its row") {
  for (const auto& row : spec::rows()) {
    const std::string error = spec::check_mutations(row);
    CHECK_MESSAGE(error.empty(), error);
  }
}

TEST_CASE("a row that would not notice is told") {
  const spec::Spec flat = {"relu", [](const auto& x) { return relu(x[0]); }, {{{{3, 5}, -2, -1}}}};
  CHECK(spec::check_mutations(flat) == "relu: gradient 0 times -1 was not noticed");
}

TEST_CASE(
    "a row in which nothing can be planted is told, unless it is a composite; and a composite that is none") {
  const spec::Call call = [](const auto& x) { return relu(x[0]) * x[0]; };
  spec::Spec row = {"relu_twice", call, {{{{3, 5}, 1, 2}}}};
  CHECK(spec::check_mutations(row) ==
        "relu_twice: no gradient 0 is recorded under this name, unless the row says that it is a composite");
  row.composite = true;
  CHECK(spec::check_mutations(row) == "");
  row.name = "relu";
  CHECK(spec::check_mutations(row) == "relu is recorded under its name, and so is no composite");
}
