#include <doctest/doctest.h>

#include "core/creation.h"
#include "core/record.h"
#include "tests/spec/spec.h"

using namespace vitrine;

TEST_CASE("what a row records on the tape has a row of its own") {
  for (const auto& row : spec::rows()) {
    const std::string error = spec::check_names(row);
    CHECK_MESSAGE(error.empty(), error);
  }
}

TEST_CASE("an op that has no row is told, and a row of the caller's counts") {
  const spec::Call call = [](const auto& x) {
    return record("stranger", {x[0]}, copy_as(x[0], x[0].dtype()),
                  [](const Tensor& dy) -> Grads { return {dy}; });
  };
  const spec::Spec misnamed = {"strange", call, {{{{3, 5}}}}}, named = {"stranger", call, {{{{3, 5}}}}};
  CHECK(spec::check_names(misnamed) == "strange records stranger, which has no row");
  CHECK(spec::check_names(misnamed, {named}).empty());
}
