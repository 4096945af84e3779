// wkv over several chunks, in joined calls, with extreme weights, and what does not fit.
#include "ops/wkv.h"

#include <doctest/doctest.h>

#include <cmath>

#include "core/creation.h"
#include "core/tape.h"
#include "ops/join.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "tests/ops/reference.h"
#include "tests/spec/spec.h"

using namespace vitrine;

namespace {

struct WkvInputs {
  Tensor k, v, decay, bonus, mean, log_weight;
  explicit WkvInputs(int64_t time, int64_t channels = 67)
      : k(test::normal({2, time, channels}, 1)),
        v(test::normal({2, time, channels}, 2)),
        decay(tensor({-0.3}, DType::float64)),
        bonus(test::normal({channels}, 3)),
        mean(test::normal({2, channels}, 4)),
        log_weight(test::normal({2, channels}, 5)) {
    decay = contiguous(expand(decay, {channels}));
  }
  std::vector<Tensor> all() const { return {k, v, decay, bonus, mean, log_weight}; }
};

template <class F>
std::vector<Tensor> run(const WkvInputs& x, const F& f) {
  Tape tape;
  for (const Tensor& t : x.all()) tape.watch(t);
  const WkvStates s = f(x.k, x.v, x.decay, x.bonus, WkvState{x.mean, x.log_weight});
  std::vector<Tensor> ys = s.tensors(), seeds;
  for (size_t i = 0; i < ys.size(); ++i) seeds.push_back(spec::draw_cotangent(ys[i], i));
  std::vector<Tensor> results = ys;
  for (const Tensor& gradient : tape.gradient(ys, x.all(), seeds)) results.push_back(gradient);
  return results;
}

}  // namespace

TEST_CASE("the kernel equals the definition at every length of the last chunk, in groups of channels") {
  for (const int64_t time : {1, 63, 64, 65, 130}) {
    const WkvInputs x(time);
    const auto kernel = run(x, wkv), definition = run(x, define::wkv);
    for (size_t i = 0; i < kernel.size(); ++i) {
      INFO(time, ": ", i);
      CHECK(test::distance(kernel[i], definition[i]) < 1e-12);
    }
  }
}

TEST_CASE("two calls joined by their state equal one call") {
  const WkvInputs x(70, 5);
  const WkvStates whole = wkv(x.k, x.v, x.decay, x.bonus);
  const WkvStates first = wkv(slice(x.k, 1, 0, 30), slice(x.v, 1, 0, 30), x.decay, x.bonus);
  const WkvStates second = wkv(slice(x.k, 1, 30, 70), slice(x.v, 1, 30, 70), x.decay, x.bonus, first.state);
  CHECK(test::distance(concat({first.y, second.y}, 1), whole.y) < 1e-14);
  CHECK(test::distance(second.state.mean, whole.state.mean) < 1e-14);
  const WkvStates none = wkv(slice(x.k, 1, 0, 0), slice(x.v, 1, 0, 0), x.decay, x.bonus, first.state);
  CHECK(none.state.mean.values() == first.state.mean.values());
}

TEST_CASE("weights of any size: a value that weighs nothing changes nothing") {
  const Tensor v = tensor({1, 100, 0}, {1, 3, 1}), zero = zeros({1});
  for (const double hidden : {-50.0, -1e8, -1e30, -HUGE_VAL}) {
    INFO(hidden);
    const Tensor k = tensor({5, hidden, 0}, {1, 3, 1});
    for (const auto& y : {wkv(k, v, zero, zero).y.values(), define::wkv(k, v, zero, zero, {}).y.values()}) {
      CHECK(y[0] == 1);
      CHECK(y[1] == doctest::Approx(1));
      CHECK(y[2] == doctest::Approx(1 / (1 + std::exp(-5.0))).epsilon(1e-6));
    }
  }
  CHECK(wkv(tensor({1e30, -1e30, 3}, {1, 3, 1}), v, zero, zero).y.values()[2] == 1);
}

TEST_CASE("second derivatives where the weights of the past and of a position are equal") {
  // After the decay of −½, the weight of the first position is exactly that of the second one.
  const Tensor k = tensor({1, 0.5, 0.25}, {1, 3, 1}, DType::float64), v = test::normal({1, 3, 1}, 6);
  const Tensor decay = tensor({-0.5}, DType::float64), bonus = tensor({0.5}, DType::float64);
  const auto y = [](const std::vector<Tensor>& x) { return wkv(x[0], x[1], x[2], x[3]).y; };
  CHECK(test::gradient_error(y, {k, v, decay, bonus}, 2) < 1e-6);
}

TEST_CASE("wkv: shapes that do not match") {
  const WkvInputs x(3, 4);
  const auto refused = [](auto&& call, const char* reason) {
    CHECK_THROWS_WITH_AS(call(), doctest::Contains(reason), Error);
  };
  refused([&] { wkv(x.k, slice(x.v, 1, 0, 2), x.decay, x.bonus); }, "wkv: v is [2, 2, 4], wanted [2, 3, 4]");
  refused([&] { wkv(x.k, x.v, slice(x.decay, 0, 0, 3), x.bonus); }, "wkv: decay is [3], wanted [4]");
  refused([&] { wkv(x.k, x.v, x.decay, x.bonus, {x.mean, {}}); }, "wanted mean and log_weight, or neither");
}
