// Gradients and parameters at the ends of their dtype's range: finite inputs give finite steps and
// finite states.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "core/creation.h"
#include "optim/clip.h"
#include "tests/optim/rules.h"

using namespace vitrine;
using namespace vitrine::optim;

namespace {

bool all_finite(const Tensor& x) {
  for (const double v : x.values())
    if (!std::isfinite(v)) return false;
  return true;
}

/// A matrix that holds `size` with both signs, one element of ordinary magnitude and one zero.
Tensor matrix_of(double size, DType dtype) { return tensor({size, -size, 1, 0, size, size}, {2, 3}, dtype); }

}  // namespace

TEST_CASE("gradients at the ends of the range leave parameters and states finite under every rule") {
  for (const auto& rule : test::optimizer_rules())
    for (const DType dtype : {DType::float32, DType::float64})
      for (const double size :
           {1e19, 1e38, 3.4e38, 1e-19, 1e-30, 1e-38, 1e-45, 1e160, 1.7e308, 1e-160, 1e-320}) {
        if (dtype == DType::float32 && (size > 1e39 || size < 1e-46)) continue;
        // The momentum of sgd truly overflows
        if (rule.first.starts_with("sgd") && size > 1e37) continue;
        INFO(rule.first, ", ", std::string(name(dtype)), ", ", size);
        const Parameter p(matrix_of(2, dtype)), q(tensor({1, 2, 3}, dtype));
        const auto optimizer = rule.second({p, q});
        for (int step = 0; step < 8; ++step) {
          p.master().set_grad(matrix_of(size, dtype));
          q.master().set_grad(tensor({size, -size, 0}, dtype));
          optimizer->step();
        }
        CHECK(all_finite(p.master()));
        CHECK(all_finite(q.master()));
        for (const auto& entry : optimizer->state_dict()) {
          INFO(entry.first);
          CHECK(all_finite(entry.second));
        }
      }
}

TEST_CASE(
    "a gradient whose square overflows moves its element by the step of any large gradient, and recovers") {
  Parameter p(tensor({1, 1})), usual(tensor({1, 1}));
  Adam a({p}, {.lr = 0.1}), b({usual}, {.lr = 0.1});
  for (const double size : {1e38, 3.4e38, 1e38}) {
    p.master().set_grad(tensor({size, -size}));
    usual.master().set_grad(tensor({1, -1}));
    a.step(), b.step();
    for (size_t i = 0; i < 2; ++i)
      CHECK(p.master().values()[i] == doctest::Approx(usual.master().values()[i]).epsilon(1e-5));
  }
  Parameter q(tensor({1, 1}));
  Adafactor adafactor({q}, {.relative_step = false, .scale_parameter = false});
  q.master().set_grad(tensor({1e38, -1e38}));
  adafactor.step();
  CHECK(q.master().values()[0] == doctest::Approx(0.99).epsilon(1e-5));
  CHECK(q.master().values()[1] == doctest::Approx(1.01).epsilon(1e-5));
}

TEST_CASE("gradients that are not finite are not hidden by the bound of their size") {
  for (const auto& rule : test::optimizer_rules())
    for (const double bad : {NAN, INFINITY, -INFINITY}) {
      if (rule.first == "lion" && std::isinf(bad)) continue;  // which takes the sign alone
      INFO(rule.first, ", ", bad);
      const Parameter p(tensor({1, 2, 3}));
      p.master().set_grad(tensor({bad, 1, 1}));
      rule.second({p})->step();
      CHECK_FALSE(std::isfinite(p.master().values()[0]));
    }
}

TEST_CASE("without eps, gradients whose squares vanish take no step beyond the rate") {
  using Made = std::unique_ptr<Optimizer>;
  for (const DType dtype : {DType::float32, DType::float64})
    for (const double size : {1e-18, 1e-20, 1e-23, 1e-30, 1e-40, 1e-160, 1e-300}) {
      if (dtype == DType::float32 && size < 1e-45) continue;
      const Parameter p(zeros({4}, dtype));
      const Made rules[] = {
          std::make_unique<Adam>(std::vector{p}, AdamOptions{.lr = 1, .eps = 0}),
          std::make_unique<NAdam>(std::vector{p}, NAdamOptions{.lr = 1, .eps = 0}),
          std::make_unique<Rmsprop>(std::vector{p}, RmspropOptions{.lr = 0.1, .eps = 0}),
          std::make_unique<Adagrad>(std::vector{p}, AdagradOptions{.lr = 1, .eps = 0}),
          std::make_unique<Adadelta>(std::vector{p}, AdadeltaOptions{.lr = 1, .eps = 1e-320})};
      for (const Made& rule : rules) {
        INFO(std::string(name(dtype)), ", ", size, ", rule ", &rule - rules);
        const double before = p.master().values()[0];
        p.master().set_grad(full({4}, size, dtype));
        rule->step();
        CHECK(std::abs(p.master().values()[0] - before) <= 2);
        CHECK(std::isfinite(p.master().values()[0]));
      }
    }
}

TEST_CASE("Lamb's rate follows norms whose squares overflow or vanish in float32") {
  for (const double size : {1e-25, 1e25}) {
    INFO(size);
    const Parameter p(tensor({size, -size}));
    Lamb lamb({p}, {.lr = 0.5, .phi_max = INFINITY});
    p.master().set_grad(tensor({1, -1}));
    lamb.step();
    CHECK(p.master().values()[0] == doctest::Approx(size / 2).epsilon(1e-5));
  }
}

TEST_CASE("the norm of gradients neither overflows nor vanishes with their squares") {
  for (const double size : {1e-30, 1e30, 3e38}) {
    INFO(size);
    const Parameter p(zeros({30000}));
    p.master().set_grad(full({30000}, size));
    const double norm = size * std::sqrt(30000);
    CHECK(gradient_norm({p}) == doctest::Approx(norm).epsilon(1e-6));
    CHECK(clip_gradients({p}, 1).item() == doctest::Approx(norm).epsilon(1e-6));
    // 1/norm is denormal
    if (size > 1) CHECK(gradient_norm({p}) == doctest::Approx(1).epsilon(1e-2));
  }
}
