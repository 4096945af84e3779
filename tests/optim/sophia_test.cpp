// Sophia, and the estimates of the Hessian's diagonal.
#include "optim/sophia.h"

#include <doctest/doctest.h>

#include <cmath>

#include "core/creation.h"
#include "core/random.h"
#include "core/tape.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/view.h"
#include "optim/hessian.h"
#include "tests/ops/reference.h"

using namespace vitrine;
using namespace vitrine::optim;

TEST_CASE("Hutchinson's estimate is exact for a diagonal Hessian, and its mean for any other") {
  const Parameter p(test::normal({5}, 1)), unused(test::normal({2}, 2));
  Generator generator(1);
  const auto quartic = [&] { return sum(square(square(p.value()))); };
  const std::vector<Tensor> h = hutchinson({p, unused}, quartic, generator);
  CHECK(test::distance(h[0], 12.0 * square(p.value())) <= 1e-12);
  CHECK(h[1].values() == std::vector<double>{0, 0});
  const Tensor half = test::normal({5, 5}, 3), a = matmul(half, transpose(half));
  const auto quadratic = [&] {
    return 0.5 * sum(p.value() * reshape(matmul(a, reshape(p.value(), {5, 1})), {5}));
  };
  Tensor mean = zeros({5}, DType::float64);
  constexpr int kDraws = 2000;
  for (int i = 0; i < kDraws; ++i) mean = mean + hutchinson({p}, quadratic, generator)[0] / kDraws;
  CHECK(test::distance(mean, diagonal(a)) <= 0.1);
  CHECK(p.value().values() == test::normal({5}, 1).values());
  CHECK_THROWS_WITH(hutchinson({p}, [&] { return p.value(); }), doctest::Contains("wanted one element"));
}

TEST_CASE("the mean of Gauss-Newton-Bartlett is the Gauss-Newton diagonal of the cross-entropy") {
  const Parameter w(test::normal({3, 4}, 1));  // logits = xw
  const Tensor x = test::normal({6, 3}, 2);
  const auto logits = [&] { return matmul(x, w.value()); };
  const Tensor p = softmax(logits());
  const Tensor exact = matmul(transpose(square(x)), p * (1.0 - p)) / 6.0;
  Generator generator(1);
  Tensor mean = zeros({3, 4}, DType::float64);
  constexpr int kDraws = 3000;
  for (int i = 0; i < kDraws; ++i) {
    const Tensor h = gauss_newton_bartlett({w}, logits, generator)[0];
    CHECK(min(h).item() >= 0);
    mean = mean + h / kDraws;
  }
  CHECK(test::distance(mean, exact) <= 0.1);
}

TEST_CASE("Sophia takes estimates in time, clips, and continues after a checkpoint") {
  const Parameter p(tensor({1, 1}, DType::float64));
  Sophia sophia({p}, {.lr = 0.1, .gamma = 1, .every = 2});
  p.master().set_grad(tensor({1, 1}, DType::float64));
  for (int i = 0; i < 2; ++i)  // the second time, too
    CHECK_THROWS_WITH_AS(sophia.step(), doctest::Contains("no estimate of the Hessian yet"), Error);
  CHECK(p.value().values() == std::vector<double>{1, 1});
  CHECK(sophia.needs_estimate());
  sophia.add_estimates({p}, {tensor({1e6, -1}, DType::float64)});
  sophia.step();
  CHECK_FALSE(sophia.needs_estimate());
  // h = 0.01·estimate, m = 0.04: a large curvature divides, a negative one gives the sign.
  CHECK(p.value().values()[0] == doctest::Approx(1 - 0.1 * 0.04 / 1e4).epsilon(1e-14));
  CHECK(p.value().values()[1] == doctest::Approx(0.9).epsilon(1e-14));

  const Parameter q(copy_as(p.value(), DType::float64));
  Sophia resumed({q}, {.lr = 0.1, .gamma = 1, .every = 2});
  resumed.load_state_dict(sophia.state_dict());
  CHECK_FALSE(resumed.needs_estimate());
  for (const auto& [optimizer, x] : {std::pair(&sophia, p), std::pair(&resumed, q)}) {
    x.master().set_grad(tensor({1, 1}, DType::float64));
    optimizer->step();
    CHECK(optimizer->needs_estimate());
  }
  CHECK(p.value().values() == q.value().values());
  CHECK_THROWS_WITH(sophia.add_estimates({p}, {ones({3})}), doctest::Contains("wanted the shape [2]"));
  CHECK_THROWS_WITH(sophia.add_estimates({p}, {}), doctest::Contains("0 estimates of the Hessian for 1"));
  CHECK_THROWS_WITH(Sophia({p}, {.gamma = 0}), doctest::Contains("Sophia: gamma is 0"));
}

TEST_CASE("with Hutchinson's estimates Sophia descends a badly scaled quadratic") {
  const Parameter p(full({2}, 1.0, DType::float64));
  const Tensor curvature = tensor({100, 1}, DType::float64);
  const auto loss = [&] { return 0.5 * sum(curvature * square(p.value())); };
  Sophia sophia({p}, {.lr = 0.02, .beta1 = 0.5, .beta2 = 0.5, .gamma = 0.05, .every = 5});
  for (int step = 0; step < 100; ++step) {
    if (sophia.needs_estimate()) sophia.add_estimates({p}, hutchinson({p}, loss));
    sophia.zero_grad();
    Tape tape;
    tape.backward(loss());
    sophia.step();
  }
  CHECK(loss().item() < 0.05);
}
