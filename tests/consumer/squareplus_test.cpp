// An op from one formula passes the same checks as the library's own ops, also on the emulated GPU.
#include "squareplus.h"

#include <doctest/doctest.h>
#include <vitrine/ops/elementwise_formula.h>
#include <vitrine/tests/spec/spec.h>

#include <string>

using namespace vitrine;

TEST_CASE("the formula passes every check of the library's own ops") {
  const spec::Spec row = {
      .name = "squareplus",
      .call = [](const std::vector<Tensor>& x) { return outside::squareplus(x[0]); },
      .samples = {{{{3, 5}}}, {{{100}, -4, 4}}},
      .not_finite = false,
      .largest = 4,
      .reason = "−∞ + ∞ is NaN, and of a large negative x a difference is left",
      .on_gpu = VITRINE_COMPILES_KERNELS,
  };
  const std::string errors = spec::check_all({row});
  CHECK_MESSAGE(errors.empty(), errors);
}
