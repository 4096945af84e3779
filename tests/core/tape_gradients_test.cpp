// Ownership of gradients: no two gradients that a user can write share memory. Also the writes that
// a tape refuses.
#include <doctest/doctest.h>

#include <cmath>

#include "core/creation.h"
#include "core/parameter.h"
#include "core/tape.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "optim/clip.h"
#include "tests/ops/reference.h"

using namespace vitrine;

namespace {

using Values = std::vector<double>;

/// A hook that writes into the gradient that it receives.
Tensor scale_to_zero(const Tensor& gradient) {
  Tensor target = gradient;
  scale_in_place(target, 0);
  return {};
}

}  // namespace

TEST_CASE("a hook that writes in place changes no other gradient") {
  const Tensor a = test::leaf({1, 2});
  Tape tape;
  const Tensor c = 3 * a, d = 2 * a;
  tape.on_gradient(c, scale_to_zero);
  tape.backward(sum(c + d));
  CHECK(a.grad().values() == Values{2, 2});
}

TEST_CASE("nor does a hook on a leaf, or one after a hook that returned a shared tensor") {
  const Tensor a = test::leaf({1, 2}), b = test::leaf({3, 4}), kept = tensor({5, 6}, DType::float64);
  Tape tape;
  tape.on_gradient(a, scale_to_zero);
  tape.on_gradient(b, [&](const Tensor&) { return kept; });
  tape.on_gradient(b, scale_to_zero);
  const Tensor y = a + b, seed = tensor({7, 8}, DType::float64);
  tape.backward(y, seed);
  CHECK(a.grad().values() == Values{0, 0});
  CHECK(b.grad().values() == Values{0, 0});
  CHECK(kept.values() == Values{5, 6});
  CHECK(seed.values() == Values{7, 8});
}

TEST_CASE("the gradient of a sum, which is one number seen many times, may be written too") {
  const Tensor x = tensor({1, 2}, DType::float64);
  Tape tape;
  tape.watch(x);
  const Tensor y = x * 1.0, loss = sum(y);
  tape.on_gradient(y, [](const Tensor& g) {
    Tensor target = g;
    scale_in_place(target, 3);
    return Tensor();
  });
  Tensor g = tape.gradient(loss, {y})[0];
  CHECK(g.values() == Values{3, 3});
  scale_in_place(g, 2);
  CHECK(g.values() == Values{6, 6});
}

TEST_CASE("what a hook is shown is not copied where nobody shares it") {
  const Tensor a = test::leaf({1, 2});
  Tape tape;
  const Tensor y = exp(a);
  const void* shown = nullptr;
  tape.on_gradient(a, [&](const Tensor& g) {
    shown = g.raw();
    return Tensor();
  });
  tape.backward(sum(y));
  CHECK(a.grad().raw() == shown);
}

TEST_CASE("a hook may write into an unrecorded gradient of a tape of order 2, and not into a recorded one") {
  const Tensor x = test::leaf({1, 2});
  {
    Tape tape({.order = 2});
    const Tensor y = x * x;
    tape.on_gradient(x, scale_to_zero);
    tape.backward(sum(y));
    CHECK(x.grad().values() == Values{0, 0});
  }
  Tape tape({.order = 2});
  const Tensor y = x * x;
  tape.on_gradient(x, scale_to_zero);
  CHECK_THROWS_WITH(tape.gradient(sum(y), {x}), doctest::Contains("which the running tape tracks"));
}

TEST_CASE("the caller alone owns what gradient() returns") {
  for (const int order : {1, 2}) {
    CAPTURE(order);
    const Tensor x = test::leaf({1, 2}), y = test::leaf({3, 4}), seed = tensor({5, 6}, DType::float64);
    std::vector<Tensor> g;
    {
      Tape tape({.order = order});
      g = tape.gradient({x + y}, {x, y, x}, {seed});
    }
    for (const Tensor& one : g) CHECK(one.is_exclusive());
    scale_in_place(g[0], 0);
    CHECK(g[1].values() == Values{5, 6});
    CHECK(g[2].values() == Values{5, 6});
    CHECK(seed.values() == Values{5, 6});
  }
}

TEST_CASE("results that are separated at order 2 keep their derivatives") {
  const Tensor x = test::leaf({1, 2}), y = test::leaf({3, 4}), seed = test::leaf({5, 6});
  Tape tape({.order = 2});
  const auto g = tape.gradient({x + y}, {x, y}, {seed});
  CHECK(g[0].storage().data() != g[1].storage().data());
  CHECK(tape.gradient(sum(g[0] * g[1] * g[1]), {seed})[0].values() == Values{75, 108});  // 3·seed²
}

TEST_CASE("set_grad of one tensor for two leaves gives each its own, and a clipping scales each once") {
  const Parameter a(zeros({2})), b(zeros({2}));
  const Tensor g = tensor({3, 4});
  a.master().set_grad(g);
  b.master().set_grad(g);
  optim::clip_gradients({a, b}, 1);
  const double scaled = a.grad().values()[0];
  CHECK(scaled == doctest::Approx(3 / std::sqrt(50.0)));
  CHECK(b.grad().values() == a.grad().values());
  CHECK(g.values() == Values{3, 4});
  Tensor alone = tensor({1, 2});
  const void* const memory = alone.raw();
  a.master().set_grad(std::move(alone));
  CHECK(a.grad().raw() == memory);  // moved
}

TEST_CASE("a gradient that is a leaf itself is none as the gradient of another") {
  const Tensor x = test::leaf({1});
  x.set_grad(test::leaf({2}));
  const Tensor gradient = x.grad();
  CHECK(!gradient.requires_grad());
}

TEST_CASE("a write into a tracked tensor is refused also after a nested tape has watched it") {
  const Tensor x = test::leaf({1, 2}), w = tensor({3, 4}, DType::float64);
  Tape tape;
  const Tensor y = x * tape.watch(w);
  {
    const Tape::Pause pause;
    Tape nested;
    for (const Tensor& t : {x, y, w}) nested.watch(t);
    const Tensor z = transpose(reshape(y, {1, 2}), 0, 1) * x * w;
    CHECK(nested.tracks(z));
  }
  for (Tensor t : {x, y, w, w.alias({1}, {1}, 1)})
    CHECK_THROWS_WITH(scale_in_place(t, 2), doctest::Contains("which the running tape tracks"));
  Tensor constant = tensor({1}, DType::float64);
  CHECK_NOTHROW(scale_in_place(constant, 2));
}

TEST_CASE("memory that a freed leaf had is not taken for its own by a tape") {
  Tape tape;
  for (int i = 0; i < 100; ++i) {
    Tensor constant = tensor({1, 2}, DType::float64);
    CHECK_NOTHROW(scale_in_place(constant, 2));
    constant = Tensor();
    const Tensor watched = test::leaf({1, 2});
    exp(watched);
  }
}
