// The rule that averages its iterates: its two points, checkpoints, and a trainer that uses both.
#include "optim/schedule_free.h"

#include <doctest/doctest.h>

#include "core/creation.h"
#include "core/files/safetensors.h"
#include "core/random.h"
#include "core/tape.h"
#include "nn/data/batch.h"
#include "nn/layers/linear.h"
#include "nn/training/trainer.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "optim/adam.h"
#include "optim/schedule.h"
#include "tests/folder.h"
#include "tests/optim/rules.h"

using namespace vitrine;
using namespace vitrine::optim;
using Point = Optimizer::Point;

namespace {

Parameter parameter(DType dtype) {
  Generator generator(1);
  Parameter p(randn({37}, DType::float32, Device::cpu, 0, 1, generator));
  p.to(dtype);
  return p;
}

void step(Optimizer& optimizer, const Parameter& p, uint64_t seed) {
  Generator generator(seed);
  p.master().set_grad(randn(p.shape(), DType::float32, Device::cpu, 0, 1, generator));
  optimizer.step();
}

}  // namespace

TEST_CASE("the points of a rule that averages: there and back without a changed bit") {
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::float16}) {
    INFO(name(dtype));
    const Parameter p = parameter(dtype), still = parameter(dtype);
    ScheduleFreeAdamW rule({p, still}, {.lr = 0.1, .warmup = 2});
    rule.move_to(Point::evaluation);  // nothing has moved
    CHECK(p.master().values() == parameter(dtype).master().values());
    rule.move_to(Point::training);
    for (uint64_t i = 0; i < 5; ++i) step(rule, p, i);
    const auto training = p.master().values(), copy = p.value().values();
    {
      const PointScope evaluation(rule, Point::evaluation);
      CHECK(p.master().values() == rule.state(p, "average").values());
      CHECK(p.master().values() != training);
      CHECK(p.value().values() != copy);  // the 16-bit copy follows
      CHECK_THROWS_WITH_AS(step(rule, p, 9), doctest::Contains("at the evaluation point"), Error);
    }
    CHECK(p.master().values() == training);
    CHECK(p.value().values() == copy);
    CHECK(still.master().values() == parameter(dtype).master().values());
  }
  const Parameter p = parameter(DType::float32);
  Adam adam({p});
  step(adam, p, 1);
  const auto before = p.master().values();
  adam.move_to(Point::evaluation);  // the same point
  CHECK(p.master().values() == before);
}

TEST_CASE("parameters that have taken different numbers of steps move to a point together") {
  const Parameter p = parameter(DType::float32), late = parameter(DType::float32);
  ScheduleFreeAdamW rule({p, late}, {.lr = 0.1});
  rule.set_moments(DType::bfloat16);
  for (uint64_t i = 0; i < 4; ++i) {
    if (i >= 2) test::set_gradient(late, 20 + i);
    step(rule, p, i);
  }
  const auto training = late.master().values();
  rule.move_to(Point::evaluation);
  CHECK(late.master().values() == rule.state(late, "average").values());
  rule.load_state_dict(rule.state_dict());
  CHECK(late.master().values() == training);
}

TEST_CASE("a checkpoint of either point continues at the training point with the same bits") {
  for (const Point point : {Point::training, Point::evaluation}) {
    const Parameter p = parameter(DType::float32);
    ScheduleFreeAdamW rule({p}, {.lr = 0.1, .weight_decay = 0.1});
    for (uint64_t i = 0; i < 3; ++i) step(rule, p, i);
    rule.move_to(point);
    const Parameter q(copy_as(p.master(), DType::float32));  // the model of the checkpoint
    ScheduleFreeAdamW resumed({q}, {.lr = 0.1, .weight_decay = 0.1});
    resumed.load_state_dict(rule.state_dict());
    rule.move_to(Point::training);
    CHECK(q.master().values() == p.master().values());
    for (uint64_t i = 3; i < 6; ++i) step(rule, p, i), step(resumed, q, i);
    CHECK(q.master().values() == p.master().values());
  }
}

TEST_CASE("the average weighs steps by the squares of the warm-up") {
  // With β₁ = 0 the parameter is z.
  const Parameter p(zeros({1}, DType::float64));
  ScheduleFreeAdamW rule({p}, {.lr = 0.1, .beta1 = 0, .warmup = 3});
  double weighted = 0, total = 0;
  for (int t = 1; t <= 6; ++t) {
    p.master().set_grad(full({1}, t, DType::float64));
    rule.step();
    const double w = std::min(1.0, t / 3.0);
    weighted += w * w * p.master().item(), total += w * w;
    CHECK(rule.state(p, "average").item() == doctest::Approx(weighted / total).epsilon(1e-13));
  }
  CHECK_THROWS_WITH(ScheduleFreeAdamW({p}, {.warmup = -1}), doctest::Contains("warmup is -1"));
}

TEST_CASE(
    "a trainer evaluates and saves the average, and a resumed run has the bits of an uninterrupted one") {
  struct Model : nn::Module {
    void fields(nn::Fields& f) override { f("layer", layer); }
    nn::Linear layer{3, 1};
  };
  const auto task_of = [](Model& model) {
    const auto batch = [](int64_t index) {
      Generator generator(static_cast<uint64_t>(index) + 1);
      const Tensor x = randn({4, 3}, DType::float32, Device::cpu, 0, 1, generator);
      return nn::Batch{{x, sum(x, {1}, KeepAxes::yes)}, 4};
    };
    return nn::training::Task{
        .model = model,
        .batch = batch,
        .validation = [batch] { return std::vector{batch(1000)}; },
        .loss = [&model](
                    const std::vector<Tensor>& x) { return mean(square(model.layer.forward(x[0]) - x[1])); }};
  };
  const test::Folder folder;
  const std::string path = folder / "model.safetensors";
  const auto values = [](Model& model) { return model.layer.weight.master().values(); };
  const auto train = [&](Model& model, int64_t stop, bool resume) {
    nn::training::Trainer trainer(task_of(model), optim::constant(0.05),
                                  {.steps = 12,
                                   .evaluate_every = 4,
                                   .optimizer = "schedule_free_adamw",
                                   .checkpoint = path,
                                   .progress = false});
    if (resume) trainer.resume(path);
    trainer.run([&] { return trainer.step() == stop; });
    return trainer.validation_loss();
  };
  manual_seed(1);
  Model whole;
  const double loss = train(whole, 12, false);
  const auto saved = read_safetensors(path).tensors;
  CHECK(saved.at("model/layer.weight").values() == values(whole));
  CHECK(saved.at("optimizer/layer.weight/average").values() == values(whole));
  manual_seed(1);
  Model first, second;
  train(first, 7, false);
  CHECK(train(second, 12, true) == loss);
  CHECK(values(second) == values(whole));
}
