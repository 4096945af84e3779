// Parameters whose gradients begin late or pause: each parameter counts its own steps, as in
// PyTorch.
#include <doctest/doctest.h>

#include "core/creation.h"
#include "core/random.h"
#include "tests/optim/rules.h"

using namespace vitrine;
using namespace vitrine::optim;

namespace {

Parameter late_parameter(uint64_t seed) {
  Generator generator(seed);
  return Parameter(randn({40, 30}, DType::float32, Device::cpu, 0, 1, generator));
}

}  // namespace

TEST_CASE("a parameter whose first gradient comes late moves as a fresh optimizer moves it") {
  for (const auto& rule : test::optimizer_rules()) {
    INFO(rule.first);
    const Parameter early = late_parameter(1), late = late_parameter(2), alone = late_parameter(2);
    const auto together = rule.second({early, late}), fresh = rule.second({alone});
    for (uint64_t t = 0; t < 1000; ++t) {
      test::set_gradient(early, t);
      together->step();
    }
    for (uint64_t t = 0; t < 8; ++t) {  // radam changes its form at step 6
      test::set_gradient(early, t), test::set_gradient(late, t), test::set_gradient(alone, t);
      together->step();
      fresh->step();
      CHECK(late.master().values() == alone.master().values());
    }
  }
}
