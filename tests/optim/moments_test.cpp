// Optimizers whose moments are bfloat16, rounded stochastically.
#include <doctest/doctest.h>

#include <cmath>

#include "core/creation.h"
#include "core/random.h"
#include "core/stochastic_rounding.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "optim/optimizers.h"
#include "tests/optim/rules.h"

using namespace vitrine;
using namespace vitrine::optim;

TEST_CASE("a rule has moments in bfloat16, or says that it has none") {
  for (const OptimizerRow* row : optimizer_table(false)) {
    INFO(row->name);
    const Parameter p(ones({3, 5}));
    const CommonOptions in_16_bits{.moments = DType::bfloat16};
    if (!has_option(row->name, "moments")) {
      CHECK_THROWS_WITH(make_optimizer(row->name, {p}, in_16_bits),
                        doctest::Contains((row->name + " has no moments that can be bfloat16").c_str()));
      CHECK_THROWS_WITH(row->make({p}, {})->set_moments(DType::bfloat16),
                        doctest::Contains("this rule has no moments that can be bfloat16"));
      continue;
    }
    const auto optimizer = make_optimizer(row->name, {p}, in_16_bits),
               wide = make_optimizer(row->name, {p}, {});
    CHECK(optimizer->setting().at("moments") == "bfloat16");
    CHECK(wide->setting().at("moments") == "float32");
    test::give_estimates(*optimizer, {p});
    test::set_gradient(p, 0);
    optimizer->step();
    bool has_16_bits = false;
    for (const std::string& name : optimizer->state_names(p))
      has_16_bits |= optimizer->state(p, name).dtype() == DType::bfloat16;
    CHECK(has_16_bits);
    CHECK_THROWS_WITH(optimizer->set_moments(DType::float32), doctest::Contains("the states exist already"));
    CHECK_THROWS_WITH(wide->set_moments(DType::float16),
                      doctest::Contains("float32 or bfloat16, got float16"));
  }
}

TEST_CASE("states are the scalar's update and rounding, element by element, on every instruction set") {
  for (const int64_t n : {1, 15, 16, 17, 100, 40000}) {  // the last has several pieces
    INFO(n);
    const Parameter p(zeros({n}));
    Sgd sgd({p}, {.momentum = 0.9});
    sgd.set_moments(DType::bfloat16);
    std::vector<double> want(static_cast<size_t>(n), 0);
    for (uint32_t t = 1; t <= 3; ++t) {
      test::set_gradient(p, t);
      const auto g = p.grad().values();
      sgd.step();
      for (size_t i = 0; i < want.size(); ++i) {
        const float before = static_cast<float>(want[i]), gradient = static_cast<float>(g[i]);
        const float mean = t == 1 ? gradient : 0.9f * before + gradient;
        want[i] = round_stochastically(mean, random_bits16(static_cast<uint32_t>(i), rounding_key(t, 0)));
      }
      CHECK(sgd.state(p, "momentum").values() == want);
    }
  }
}

TEST_CASE("a mean of small changes is right in stochastic rounding, where rounding to nearest would stop") {
  // v <- 0.999v + 0.001g^2 with g = 1 from v = 0 has 1 - 0.999^t, which bfloat16 rounded to nearest
  // leaves where 0.001(1 - v) is below half of its last place.
  constexpr int64_t kElements = 4096;
  constexpr int kSteps = 3000;
  const Parameter p(zeros({kElements}));
  Adam adam({p}, {.lr = 0, .beta1 = 0.9, .beta2 = 0.999});
  adam.set_moments(DType::bfloat16);
  bfloat16 nearest(0.0f);
  for (int t = 0; t < kSteps; ++t) {
    p.master().set_grad(ones({kElements}));
    adam.step();
    nearest = bfloat16(0.999f * nearest + 0.001f);
  }
  const double exact = 1 - std::pow(0.999, kSteps);
  CHECK(mean(cast(adam.state(p, "moment2"), DType::float64)).item() == doctest::Approx(exact).epsilon(2e-3));
  CHECK(std::abs(static_cast<double>(nearest) - exact) > 0.3);
}

TEST_CASE("a resumed run with moments in bfloat16 has the bits of one that ran through") {
  const auto run = [](bool resumes) {
    Generator g(2);
    Parameter p(randn({50, 7}, DType::float32, Device::cpu, 0, 1, g));
    const CommonOptions options{.lr = 0.01, .moments = DType::bfloat16};
    auto optimizer = make_optimizer("nadamw", {p}, options);
    for (uint64_t t = 0; t < 6; ++t) {
      if (t == 3 && resumes) {
        const auto state = optimizer->state_dict();
        CHECK(state.at("0/moment2").dtype() == DType::bfloat16);
        CHECK_THROWS_WITH(make_optimizer("nadamw", {p}, {})->load_state_dict(state),
                          doctest::Contains("0/moment1 is bfloat16[50, 7] on cpu, wanted float32[50, 7]"));
        optimizer = make_optimizer("nadamw", {p}, options);
        optimizer->load_state_dict(state);
      }
      test::set_gradient(p, t);
      optimizer->step();
    }
    return p.master().values();
  };
  CHECK(run(true) == run(false));
}

TEST_CASE("float64 parameters keep float64 moments beside float32 ones in bfloat16") {
  const Parameter wide(ones({4}, DType::float64)), p(ones({4}));
  Adam adam({wide, p});
  adam.set_moments(DType::bfloat16);
  wide.master().set_grad(ones({4}, DType::float64));
  test::set_gradient(p, 0);
  adam.step();
  CHECK(adam.state(wide, "moment2").dtype() == DType::float64);
  CHECK(adam.state(p, "moment2").dtype() == DType::bfloat16);
}
