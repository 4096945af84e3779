#include "optim/adamax.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "core/creation.h"
#include "core/random.h"
#include "tests/spec/spec.h"

using namespace vitrine;
using namespace vitrine::optim;

namespace {

/// Algorithm 2 of the paper in double, with the weight decay of the options.
struct PlainAdamax {
  AdamaxOptions o;
  std::vector<double> m, u;
  int t = 0;

  void step(std::vector<double>& x, const std::vector<double>& gradients) {
    m.resize(x.size()), u.resize(x.size()), ++t;
    for (size_t i = 0; i < x.size(); ++i) {
      double g = gradients[i];
      if (o.decay == Decay::coupled) g += o.weight_decay * x[i];
      if (o.decay == Decay::decoupled) x[i] -= o.lr * o.weight_decay * x[i];
      m[i] = o.beta1 * m[i] + (1 - o.beta1) * g;
      u[i] = std::max(o.beta2 * u[i], std::abs(g));
      if (u[i] > 0 || o.eps > 0) x[i] -= o.lr / (1 - std::pow(o.beta1, t)) * m[i] / (u[i] + o.eps);
    }
  }
};

}  // namespace

TEST_CASE("Adamax follows the loop of the paper, with rows that seldom have a gradient") {
  const AdamaxOptions settings[] = {{},
                                    {.lr = 0.1, .beta1 = 0.5, .beta2 = 0.6, .eps = 1e-3},
                                    {.lr = 0.05, .eps = 0, .weight_decay = 0.2},
                                    {.lr = 0.05, .weight_decay = 0.2, .decay = Decay::decoupled}};
  for (const AdamaxOptions& options : settings)
    for (const DType dtype : {DType::float64, DType::float32}) {
      INFO(name(dtype), ", setting ", &options - settings);
      Generator generator(5);
      Parameter p(randn({9, 1001}, dtype, Device::cpu, 0, 1, generator));
      std::vector<double> x = p.master().values();
      Adamax adamax({p}, options);
      PlainAdamax plain{options, {}, {}};
      for (int t = 0; t < 12; ++t) {
        std::vector<double> g = randn({9, 1001}, dtype, Device::cpu, 0, 1, generator).values();
        for (size_t i = 0; i < g.size(); ++i)
          if (i / 1001 % 3 != static_cast<size_t>(t) % 3)
            g[i] = 0;  // like an embedding row that does not occur
        p.master().set_grad(tensor(g, {9, 1001}, dtype));
        adamax.step();
        plain.step(x, g);
      }
      const bool is_double = dtype == DType::float64;
      CHECK(spec::distance(p.master().values(), x, 1e-2) <= (is_double ? 1e-12 : 1e-5));
      CHECK(spec::distance(adamax.state(p, "infinity_norm").values(), plain.u, 1e-2) <=
            (is_double ? 1e-14 : 1e-6));
    }
}

TEST_CASE("equal gradients move Adamax by the rate, whatever their size") {
  for (const double size : {1e-30, 1e-3, 1.0, 1e38}) {
    INFO(size);
    const Parameter p(tensor({1, 1}));
    Adamax adamax({p}, {.lr = 0.25, .eps = 0});
    for (int t = 1; t <= 3; ++t) {
      p.master().set_grad(tensor({size, -size}));
      adamax.step();
      CHECK(p.master().values()[0] == doctest::Approx(1 - 0.25 * t).epsilon(1e-5));
      CHECK(p.master().values()[1] == doctest::Approx(1 + 0.25 * t).epsilon(1e-5));
    }
  }
}

TEST_CASE("Adamax refuses betas and eps out of range") {
  const Parameter p(zeros({2}));
  CHECK_THROWS_WITH(Adamax({p}, {.beta2 = 1}),
                    doctest::Contains("Adamax: the betas are 0.9 and 1, wanted [0, 1)"));
  CHECK_THROWS_WITH(Adamax({p}, {.eps = -1}), doctest::Contains("Adamax: eps is -1"));
}
