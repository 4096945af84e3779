// A mistake planted in any backward makes the checks fail: sign flipped, scaled by 1.01, one input's gradient zeroed.
#include <doctest/doctest.h>

#include "ops/activation.h"
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
