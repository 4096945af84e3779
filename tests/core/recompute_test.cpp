// Gradient checkpointing: the same bits as without it, also if nested, and its errors.
#include "core/recompute.h"

#include <doctest/doctest.h>

#include <memory>

#include "core/creation.h"
#include "core/parameter.h"
#include "core/random.h"
#include "core/record.h"
#include "core/tape.h"
#include "ops/dropout.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "ops/reduce.h"

using namespace vitrine;

namespace {

struct Model {
  Tensor w = randn({6, 6}), b = randn({6});
  Model() { w.requires_grad(), b.requires_grad(); }
  Tensor layer(const Tensor& x) const { return dropout(tanh(matmul(x, w) + b), 0.4); }
};

std::vector<std::vector<double>> train(int depth) {
  manual_seed(5);
  const Model models[4];
  Tensor x = randn({4, 6});
  x.requires_grad();
  Tape tape;
  Tensor y = x;
  const auto twice = [&](const Tensor& in, int i) {
    const auto inner = [&models, in, i] { return models[i].layer(in); };
    return models[i + 1].layer(depth == 2 ? recompute(inner) : inner());
  };
  for (int i = 0; i < 4; i += 2) {
    const Tensor in = y;
    y = depth > 0 ? recompute([&twice, in, i] { return twice(in, i); }) : twice(in, i);
  }
  const Tensor loss = sum(square(y));
  tape.backward(loss);
  std::vector<std::vector<double>> result = {{loss.item()}, x.grad().values(), randn({3}).values()};
  for (const Model& m : models) result.insert(result.end(), {m.w.grad().values(), m.b.grad().values()});
  return result;
}

}  // namespace

TEST_CASE("with parameters and dropout inside, once and nested, it has the bits of the plain run") {
  const auto plain = train(0);
  CHECK(train(1) == plain);
  CHECK(train(2) == plain);
}

TEST_CASE(
    "what is read in several checkpoints, beside them, and in several passes is added up as in the plain "
    "run") {
  // More rows than a product adds in one block, so that the bits show where its sum begins.
  const auto train = [](bool recomputed) {
    manual_seed(7);
    const Model model;
    Tensor first = randn({1200, 6});
    first.requires_grad();
    for (int pass = 0; pass < 2; ++pass) {
      Tape tape;
      Tensor x = first;
      for (int i = 0; i < 2; ++i) {
        const auto f = [&model, x] { return model.layer(x) + model.layer(x * x); };
        x = x + (recomputed ? recompute(f) : f()) + matmul(x, model.w);
      }
      tape.backward(sum(square(x)));
    }
    return std::vector{model.w.grad().values(), model.b.grad().values(), first.grad().values()};
  };
  CHECK(train(true) == train(false));
}

TEST_CASE("the steps of a recurrence with several results have the bits of the plain run") {
  // The second result of the last step is not used, the third has no gradient, and the fourth is
  // returned as it is, which most steps do not read.
  const auto train = [](bool recomputed) {
    manual_seed(11);
    const Model model;
    Tensor h = randn({4, 6}), c = h, total = zeros({4, 6});
    h.requires_grad();
    const Tensor first = h;
    Tape tape;
    for (int i = 0; i < 4; ++i) {
      const auto step = [&model, h, c, first] {
        const Tensor next = model.layer(h) + c;
        return std::vector{next * h, next, less(next, h), first};
      };
      const std::vector<Tensor> made = recomputed ? recompute_all(step) : step();
      total = total + where(made[2], made[0], made[0] * made[0]) + h * square(made[3]);
      h = made[0], c = made[1];
    }
    tape.backward(sum(square(total)));
    return std::vector{model.w.grad().values(), model.b.grad().values(), first.grad().values(),
                       randn({3}).values()};
  };
  CHECK(train(true) == train(false));
}

TEST_CASE("a second run that fails changes no gradient; those that its backward may have changed are told") {
  const Model model;
  const Tensor x = randn({4, 6});
  {
    Tape tape;
    tape.backward(sum(model.layer(x)));
  }
  const auto before = model.w.grad().values();
  const auto message = [&](const std::function<Tensor(const Tensor&)>& at_second) {
    int runs = 0;
    Tape tape;
    const Tensor y = recompute([&] {
      const Tensor y = model.layer(x);
      return ++runs == 2 ? at_second(y) : y;
    });
    try {
      tape.backward(sum(y));
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  const std::string failed = message([](const Tensor&) -> Tensor { fail("planted"); });
  CHECK(failed.ends_with("planted"));
  CHECK(model.w.grad().values() == before);
  const std::string broken = message(
      [](const Tensor& y) { return record("broken", {y}, y * 1, [](const Tensor&) -> Grads { throw 7; }); });
  CHECK(broken.find("an exception that is no std::exception") != std::string::npos);
  CHECK(broken.find("already changed are the gradients of (unnamed), (unnamed)") != std::string::npos);
}

TEST_CASE("it records one node, and recomputes") {
  const Model model;
  const Tensor x = randn({4, 6});
  int runs = 0;
  std::vector<bool> again;
  Tape tape;
  const Tensor y = recompute([&] {
    ++runs;
    again.push_back(recomputing());
    return model.layer(x);
  });
  CHECK(tape.size() == 1);
  tape.backward(sum(y));
  CHECK(runs == 2);
  CHECK(again == std::vector<bool>{false, true});
  CHECK(model.b.grad().defined());
}

TEST_CASE("a parameter that is overwritten between the two runs is an error") {
  Model model;
  const Tensor x = randn({4, 6});
  Tape tape;
  const Tensor y = recompute([&] { return model.layer(x); });
  {
    const Tape::Pause pause;
    scale_in_place(model.w, 2);
  }
  CHECK_THROWS_WITH(tape.backward(sum(y)), doctest::Contains("overwritten"));
}

TEST_CASE(
    "a batch that is overwritten between the two runs is an error; temporaries of the forward are not "
    "missed") {
  Model model;
  Tensor x = randn({4, 6});
  Tape tape;
  const Tensor y = recompute([&] { return model.layer(x * 2); });
  {
    const Tape::Pause pause;
    scale_in_place(x, 2);
  }
  CHECK_THROWS_WITH(tape.backward(sum(y)), doctest::Contains("was overwritten since, by scale_in_place"));
}

TEST_CASE("a generator of one's own draws the same numbers in the second run, and goes on where it was") {
  const auto train = [](bool recomputed) {
    Generator generator(3);
    Tensor x = full({1000}, 2.0, DType::float64);
    x.requires_grad();
    Tape tape;
    const auto f = [&] { return square(dropout(x, 0.5, generator)); };
    tape.backward(sum(recomputed ? recompute(f) : f()));
    auto result = x.grad().values();
    result.push_back(static_cast<double>(generator.offset()));
    return result;
  };
  CHECK(train(true) == train(false));
}

TEST_CASE("a generator may be made inside, or be gone before the backward") {
  const auto train = [](bool recomputed, bool goes) {
    Tensor x = full({1000}, 2.0, DType::float64);
    x.requires_grad();
    auto outside = std::make_unique<Generator>(3);
    const auto f = [&] {
      Generator inside(7);
      const Tensor y = dropout(x, 0.5, inside);
      return outside ? dropout(y, 0.5, *outside) : y;
    };
    Tape tape;
    const Tensor y = recomputed ? recompute(f) : f();
    if (goes) outside.reset();
    tape.backward(sum(y));
    return x.grad().values();
  };
  CHECK(train(true, false) == train(false, false));
  // Without the outside generator the second run drops nothing more, so the gradients differ.
  CHECK(train(true, true) != train(false, true));
}

TEST_CASE("anomaly mode looks inside") {
  Tensor x = zeros({2}, DType::float64);
  x.requires_grad();
  Tape tape({.anomaly = true});
  const Tensor y = recompute([&] { return sqrt(x); });
  CHECK_THROWS_WITH(tape.backward(sum(y)), doctest::Contains("the gradient of sqrt"));
}

TEST_CASE("the gradient of a parameter goes on in its own dtype after the parameter has another one") {
  Parameter w(tensor({1, 2}));
  w.to(DType::bfloat16);
  w.gradients_in(DType::bfloat16);
  const auto backward = [&] {
    Tape tape;
    tape.backward(recompute([&] { return sum(square(w.value())); }));
  };
  backward();
  w.to(DType::float32);
  backward();
  CHECK(w.grad().values() == std::vector<double>{4, 8});
}
