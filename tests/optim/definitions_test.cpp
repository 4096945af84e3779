// The kernels of RMSprop, Adagrad, Adadelta, LAMB and Adafactor against the formulas of the papers,
// written in ops.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "core/creation.h"
#include "core/random.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "optim/optimizers.h"
#include "tests/spec/spec.h"

using namespace vitrine;
using namespace vitrine::optim;

namespace {

using State = std::map<std::string, Tensor>;

/// The new x after step t, given the rule's state.
using Definition = std::function<Tensor(const Tensor& x, const Tensor& g, State& state, double t)>;

/// beta·old + (1 − beta)·x, stored under this name; initially 0.
Tensor average(State& state, const std::string& name, const Tensor& x, double beta) {
  Tensor& old = state[name];
  return old = old.defined() ? beta * old + (1 - beta) * x : (1 - beta) * x;
}

/// A gradient as limited by rules that divide by the root of squares.
Tensor limited(const Tensor& g, DType dtype) {
  const double most = dtype == DType::float64 ? 0x1p400 : 0x1p60;
  return clamp(g, -most, most);
}

Tensor length(const Tensor& x) { return sqrt(sum(square(x))); }
Tensor rms(const Tensor& x) { return sqrt(mean(square(x))); }

Definition rmsprop(const RmspropOptions& o) {
  return [o](const Tensor& x, const Tensor& grad, State& state, double) {
    const Tensor g = grad + o.weight_decay * x;
    Tensor v = average(state, "v", square(g), o.beta2);
    if (o.centered) v = v - square(average(state, "m", g, o.beta2));
    Tensor u = g / (sqrt(v) + o.eps);
    if (o.momentum > 0) {
      Tensor& buffer = state["buffer"];
      u = buffer = buffer.defined() ? o.momentum * buffer + u : u;
    }
    return x - o.lr * u;
  };
}

Definition adagrad(const AdagradOptions& o) {
  return [o](const Tensor& x, const Tensor& grad, State& state, double t) {
    const Tensor g = grad + o.weight_decay * x;
    Tensor& v = state["v"];
    v = v.defined() ? v + square(g) : square(g);
    return x - o.lr / (1 + (t - 1) * o.lr_decay) * g / (sqrt(v) + o.eps);
  };
}

Definition adadelta(const AdadeltaOptions& o) {
  return [o](const Tensor& x, const Tensor& grad, State& state, double) {
    const Tensor g = grad + o.weight_decay * x;
    const Tensor v = average(state, "v", square(g), o.rho);
    const Tensor before = state.count("steps") ? state["steps"] : zeros_like(x);
    const Tensor u = sqrt(before + o.eps) / sqrt(v + o.eps) * g;
    average(state, "steps", square(u), o.rho);
    return x - o.lr * u;
  };
}

Definition lamb(const LambOptions& o) {
  return [o](const Tensor& x, const Tensor& g, State& state, double t) {
    const Tensor m = average(state, "m", g, o.beta1) / (1 - std::pow(o.beta1, t));
    const Tensor v = average(state, "v", square(g), o.beta2) / (1 - std::pow(o.beta2, t));
    const Tensor u = m / (sqrt(v) + std::max(o.eps, 0x1p-63)) + o.weight_decay * x;
    if (length(x).item() == 0 || length(u).item() == 0) return x - o.lr * u;
    return x - o.lr * clamp(length(x), o.phi_min, o.phi_max) / length(u) * u;
  };
}

Definition adafactor(const AdafactorOptions& o) {
  return [o](const Tensor& x, const Tensor& g, State& state, double t) {
    const double beta2 = 1 - std::pow(t, -0.8),
                 lr = o.relative_step ? std::min(o.lr, 1 / std::sqrt(t)) : o.lr;
    const Tensor squares = square(g) + 1e-30;
    Tensor v;
    if (x.rank() < 2) {
      v = average(state, "v", squares, beta2);
    } else {
      const Tensor rows = average(state, "rows", mean(squares, {-1}, KeepAxes::yes), beta2);
      const Tensor columns = average(state, "columns", mean(squares, {-2}, KeepAxes::yes), beta2);
      v = rows / mean(rows, {-2}, KeepAxes::yes) * columns;
    }
    Tensor u = g / sqrt(v);
    u = u / maximum(rms(u) / o.clip, 1);
    const Tensor step = o.scale_parameter ? lr * maximum(rms(x), 1e-3) : full({}, lr, x.dtype());
    u = step * u;
    if (o.beta1 > 0) u = average(state, "m", u, o.beta1);
    return x * (1 - step * o.weight_decay) - u;
  };
}

struct Rule {
  const char* name;
  std::function<std::unique_ptr<Optimizer>(std::vector<Parameter>)> make;
  Definition definition;
};

template <class R, class Options>
Rule rule(const char* name, const Options& o, Definition (*define)(const Options&)) {
  return {name, [o](std::vector<Parameter> p) { return std::make_unique<R>(std::move(p), o); }, define(o)};
}

std::vector<Rule> rules() {
  return {
      rule<Rmsprop>("rmsprop", RmspropOptions{.weight_decay = 0.1}, rmsprop),
      rule<Rmsprop>("centered rmsprop with momentum", RmspropOptions{.momentum = 0.9, .centered = true},
                    rmsprop),
      rule<Adagrad>("adagrad", AdagradOptions{.weight_decay = 0.1, .lr_decay = 0.5}, adagrad),
      rule<Adadelta>("adadelta", AdadeltaOptions{.weight_decay = 0.1}, adadelta),
      rule<Lamb>("lamb", LambOptions{.eps = 0, .weight_decay = 0.1, .phi_max = 20}, lamb),
      rule<Adafactor>("adafactor", AdafactorOptions{.weight_decay = 0.1, .clip = 0.5}, adafactor),
      rule<Adafactor>("adafactor, steps by 1/√t", AdafactorOptions{.lr = 1}, adafactor),
      rule<Adafactor>("adafactor, fixed steps and a first moment",
                      AdafactorOptions{.lr = 0.02,
                                       .relative_step = false,
                                       .scale_parameter = false,
                                       .beta1 = 0.9,
                                       .weight_decay = 0.1},
                      adafactor),
  };
}

/// Around the sizes of pieces and tiles.
const std::vector<Shape> kShapes = {{70, 1100}, {3, 33, 5}, {2, 2, 1, 9}, {40, 1}, {1, 7},
                                    {20000},    {3},        {},           {0, 4}};

/// Parameters of all these shapes, in turn of ordinary magnitude, tiny, and zero, where norms reach
/// their bounds.
std::vector<Tensor> draw_parameters(Generator& generator) {
  std::vector<Tensor> x;
  for (const double size : {1.0, 1e-5, 0.0})
    for (const Shape& shape : kShapes)
      x.push_back(randn(shape, DType::float64, Device::cpu, 0, 1, generator) * size);
  return x;
}

/// The gradients of a step. In every other matrix they are `largest` times as large, and its first
/// row has no gradient, like a token that does not occur.
std::vector<Tensor> draw_gradients(const std::vector<Tensor>& x, double largest, Generator& generator) {
  std::vector<Tensor> g;
  for (size_t i = 0; i < x.size(); ++i) {
    g.push_back(randn(x[i].shape(), DType::float32, Device::cpu, 0, 1, generator));
    if (i % 2 == 0 && x[i].rank() == 2 && x[i].size(0) > 1) {
      g.back() = g.back() * largest;
      for (int64_t k = 0; k < x[i].size(1); ++k) g.back().data<float>()[k] = 0;
    }
  }
  return g;
}

}  // namespace

TEST_CASE("optimizers do what their formulas say, for all parameters of a group together") {
  for (const Rule& rule : rules())
    for (const auto& range : std::vector<std::pair<DType, double>>{
             {DType::float64, 1e6}, {DType::float32, 1e6}, {DType::float32, 1e37}}) {
      const DType dtype = range.first;
      const double largest = range.second;
      INFO(rule.name, " ", vitrine::name(dtype), ", gradients up to ", largest);
      Generator generator(7);
      std::vector<Tensor> x = draw_parameters(generator);
      std::vector<Parameter> p;
      for (Tensor& start : x) {
        p.emplace_back(copy_as(start, dtype));
        start = copy_as(p.back().master(), DType::float64);
      }
      const auto optimizer = rule.make(p);
      std::vector<State> states(p.size());
      for (int t = 1; t <= 4; ++t) {
        const std::vector<Tensor> g = draw_gradients(x, largest, generator);
        for (size_t i = 0; i < p.size(); ++i) {
          p[i].master().set_grad(copy_as(g[i], dtype));
          const Tensor taken = limited(copy_as(g[i], DType::float64), dtype);
          if (x[i].numel() > 0) x[i] = rule.definition(x[i], taken, states[i], t);
        }
        optimizer->step();
      }
      for (size_t i = 0; i < p.size(); ++i) {
        INFO(fmt::format("{} of shape {}", i, x[i].shape()));
        CHECK(spec::distance(p[i].master().values(), x[i].values(), 1e-2) <=
              (dtype == DType::float64 ? 1e-12 : 1e-5));
      }
    }
}
