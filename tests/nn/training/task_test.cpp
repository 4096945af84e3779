// Training without a Gpt: any module, any loss, batches of any tensors, and different numbers of
// tokens.
#include "nn/training/task.h"
#include "nn/models/gpt.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "nn/report/report.h"
#include "nn/training/trainer.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "tests/folder.h"
#include "tests/nn/training/reverser.h"
#include "tests/nn/training/tiny.h"

using namespace vitrine;
using namespace vitrine::nn;
using namespace vitrine::nn::report;
using namespace vitrine::nn::training;
using test::quiet, test::Reverser, test::reversing, test::reversals;

namespace {

double sum_of_losses(const Reverser& model, const Batch& batch) {
  return cross_entropy(model.forward(batch.tensors[0]), batch.tensors[1], {.reduction = Reduction::sum})
      .item();
}

}  // namespace

TEST_CASE("an encoder learns to write backwards, and the report shows its layers and attentions") {
  Reverser model = test::seeded_reverser(1);
  Trainer trainer(reversing(model, 16), optim::warmup_cosine(1e-2, 10, 300), quiet(300));
  CHECK(trainer.validation_loss() == doctest::Approx(std::log(Reverser::kSymbols)).epsilon(0.1));
  trainer.run();
  const RunRecord& record = trainer.record();
  CHECK(record.final_validation_loss < 0.1);
  CHECK(record.parameters == model.parameter_count());
  REQUIRE(record.grad_norm_by_layer.size() == 1);
  CHECK(record.grad_norm_by_layer[0].name == "attentions.0");
  CHECK(record.grad_norm_by_layer[0].y.size() == 30);
  REQUIRE(record.grad_norm_by_path.size() == 1);
  CHECK(record.grad_norm_by_path[0].name == "attentions.0");
  CHECK(record.grad_norm_by_path[0].q.y.size() == 30);
  CHECK(render_report("Backwards", {record}).find("data-name=\"attentions.0\"") != std::string::npos);
}

TEST_CASE("a model may lack matrices, or have nothing else") {
  struct Affine : Module {
    Affine(Bias bias) : layer(3, 1, bias) {}
    void fields(Fields& f) override { f("layer", layer); }
    Linear layer;
  };
  struct Gain : Module {
    Gain() : gain(ones({3})) {}
    void fields(Fields& f) override { f("gain", gain); }
    Parameter gain;
  };
  const Tensor x = randn({8, 3});
  const auto train = [&](Module& model, double decay, const std::function<Tensor(const Tensor&)>& forward) {
    Task task{.model = model,
              .batch = [&](int64_t) -> Batch {
                return {{x}, 8};
              },
              .validation = [&]() -> std::vector<Batch> {
                return {{{x}, 8}};
              },
              .loss = [&](const std::vector<Tensor>& xs) { return mean(square(forward(xs[0]) - 1)); }};
    TrainingOptions options = quiet(50);
    options.weight_decay = decay;
    Trainer trainer(task, optim::constant(1e-2), options);
    const double before = trainer.validation_loss();
    trainer.run();
    CHECK(trainer.record().final_validation_loss < before);
    return test::all_values(model);
  };
  const auto matrix = [&](double decay) {
    manual_seed(1);
    Affine model(Bias::no);
    return train(model, decay, [&](const Tensor& x) { return model.layer.forward(x); });
  };
  const auto vector = [&](double decay) {
    Gain model;
    return train(model, decay, [&](const Tensor& x) { return x * model.gain.value(); });
  };
  CHECK(matrix(0) != matrix(0.5));
  CHECK(vector(0) == vector(0.5));  // only matrices decay
}

TEST_CASE("an optimizer that needs the Hessian gets estimates in time, from the loss or from logits") {
  struct Bowl : Module {
    void fields(Fields& f) override { f("x", x); }
    Parameter x = Parameter(ones({2}));
  } bowl;
  const Tensor curvature = tensor({1, 10});
  const auto once = [] { return Batch{{ones({1})}, 1}; };
  const Task task{
      .model = bowl,
      .batch = [=](int64_t) { return once(); },
      .validation = [=] { return std::vector{once()}; },
      .loss = [&](const std::vector<Tensor>&) { return 0.5 * sum(curvature * square(bowl.x.value())); }};
  auto made_here =
      std::make_unique<optim::Sophia>(bowl.parameters(), optim::SophiaOptions{.beta2 = 0.5, .every = 2});
  const optim::Sophia& sophia = *made_here;
  Trainer trainer(task, std::move(made_here), optim::constant(1e-3), quiet(3));
  trainer.run();
  // Two estimates, at the steps 1 and 3. Hutchinson's are exact for a diagonal Hessian.
  CHECK(sophia.state(bowl.x, "hessian").values() == std::vector<double>{0.75, 7.5});

  const auto trained = [&](bool by_logits, int64_t stop, const std::string& from, const std::string& to) {
    manual_seed(from.empty() ? 3 : 99);
    Gpt gpt(test::tiny());
    Task text = test::text(gpt, test::counting(300), test::counting(60));
    if (!by_logits) text.logits = nullptr;
    TrainingOptions options = quiet(6);
    options.optimizer = "sophia";
    Trainer run(text, optim::constant(1e-3), options);
    if (!from.empty()) run.resume(from);
    const double before = run.validation_loss();
    run.run([&] { return run.step() == stop; });
    if (from.empty()) CHECK(run.validation_loss() < before);
    run.save(to);
    return test::all_values(gpt);
  };
  const test::Folder folder;
  for (const bool by_logits : {true, false}) {
    const auto whole = trained(by_logits, 6, "", folder / "whole");
    trained(by_logits, 4, "", folder / "four");
    CHECK(trained(by_logits, 6, folder / "four", folder / "six") == whole);
  }
}

TEST_CASE("micro-batches of different numbers of tokens give the step of the batch that holds them all") {
  REQUIRE(reversals(0, 2).tokens != reversals(2, 2).tokens);
  std::vector<std::vector<double>> values;
  std::vector<double> losses, norms;
  for (const int64_t accumulate : {1, 3}) {
    Reverser model = test::seeded_reverser(1);
    auto options = quiet(2);
    options.accumulate = accumulate;
    options.clip = 0;
    options.optimizer = "sgd";  // unlike Adam, it depends on the scale of gradients
    Trainer trainer(reversing(model, 6 / accumulate), optim::constant(0.5), options);
    trainer.run();
    values.push_back(test::all_values(model));
    losses.push_back(trainer.record().train_loss.y[1]);
    norms.push_back(trainer.record().grad_norm_by_path[0].v.y[0]);
  }
  CHECK(losses[0] == doctest::Approx(losses[1]).epsilon(1e-6));
  CHECK(norms[1] / norms[0] == doctest::Approx(1).epsilon(1e-5));
  double largest = 0;
  for (size_t i = 0; i < values[0].size(); ++i)
    largest = std::max(largest, std::abs(values[0][i] - values[1][i]));
  CHECK(largest < 1e-6);
}

TEST_CASE("the validation loss weighs batches by their tokens") {
  Reverser model = test::seeded_reverser(1);
  Trainer trainer(reversing(model, 4), optim::constant(0), quiet(1));
  const Batch first = reversals(1 << 20, 8), second = reversals(1 << 21, 1);
  double sum = 0;
  for (const Batch& b : {first, second}) sum += sum_of_losses(model, b);
  CHECK(trainer.validation_loss() ==
        doctest::Approx(sum / static_cast<double>(first.tokens + second.tokens)).epsilon(1e-6));
}

TEST_CASE("batches may change their shapes, and the loss of a step is that of its tokens") {
  Reverser model = test::seeded_reverser(1);
  Task task = reversing(model, 4);
  task.batch = [](int64_t index) { return reversals(16 * index, 4 + index % 3); };
  auto options = quiet(4);
  options.accumulate = 2;
  Trainer trainer(task, optim::constant(0), options);
  trainer.run();
  for (int64_t step = 0; step < 4; ++step) {
    double sum = 0, tokens = 0;
    for (const Batch& b : {task.batch(2 * step), task.batch(2 * step + 1)}) {
      sum += sum_of_losses(model, b);
      tokens += static_cast<double>(b.tokens);
    }
    CHECK(trainer.record().train_loss.y[static_cast<size_t>(step)] ==
          doctest::Approx(sum / tokens).epsilon(1e-6));
  }
}

TEST_CASE("any task goes on from a checkpoint with the same bits, and another task does not") {
  const test::Folder folder;
  const std::string path = folder / "checkpoint";
  const auto schedule = optim::warmup_cosine(1e-2, 2, 6);
  Reverser through = test::seeded_reverser(1), stopped = through.clone(), resumed = test::seeded_reverser(2);
  Trainer(reversing(through, 4), schedule, quiet(6)).run();
  Trainer first(reversing(stopped, 4), schedule, quiet(6));
  first.run([&] { return first.step() == 3; });
  first.save(path);
  Trainer second(reversing(resumed, 4), schedule, quiet(6));
  second.resume(path);
  second.run();
  CHECK(test::all_values(resumed) == test::all_values(through));
  Trainer other(reversing(resumed, 5), schedule, quiet(6));
  CHECK_THROWS_WITH_AS(other.resume(path), doctest::Contains("is 4, of this run 5"), Error);
}

TEST_CASE("a run that fails in a step saves what it was before that step") {
  const test::Folder folder;
  const std::string path = folder / "checkpoint";
  const auto schedule = optim::warmup_cosine(1e-2, 2, 6);
  Reverser through = test::seeded_reverser(1), failing = through.clone(), resumed = test::seeded_reverser(2);
  Trainer(reversing(through, 4), schedule, quiet(6)).run();
  Task task = reversing(failing, 4);
  int calls = 0;
  task.loss = [&calls, loss = task.loss](const std::vector<Tensor>& x) {
    return loss(x) * (++calls > 3 ? NAN : 1.0);
  };
  auto options = quiet(6);
  options.checkpoint = path;
  Trainer first(task, schedule, options);
  CHECK_THROWS_WITH_AS(
      first.run(),
      doctest::Contains(
          fmt::format("the loss is nan at step 4; lower the learning rate; the run after step 3 "
                      "is in {}.failed",
                      path)
              .c_str()),
      Error);
  CHECK(!std::filesystem::exists(path));
  Trainer second(reversing(resumed, 4), schedule, quiet(6));
  second.resume(path + ".failed");
  CHECK(second.step() == 3);
  second.run();
  CHECK(test::all_values(resumed) == test::all_values(through));
}

TEST_CASE("a callback of the user's sees every pass of a training run, those that are measured too") {
  Reverser model = test::seeded_reverser(1);
  MultiHeadAttention& attention = *attentions_of(model).front().second;
  int64_t passes = 0;
  attention.on_projected = [&](const Tensor&, const Tensor&, const Tensor&) { ++passes; };
  Trainer trainer(reversing(model, 4), optim::constant(1e-3), quiet(3));
  trainer.run([&] { return trainer.step() == 2; });
  CHECK(passes == 2);
  REQUIRE(attention.on_projected);
  CHECK(trainer.record().grad_norm_by_path[0].q.y.size() == 1);
}

TEST_CASE("a task that lacks something, and batches of no tokens, are told") {
  Reverser model = test::seeded_reverser(1);
  const auto refused = [](const Task& task, const char* message) {
    CHECK_THROWS_WITH_AS(Trainer(task, optim::constant(1), quiet(1)).run(), doctest::Contains(message),
                         Error);
  };
  const Task whole = reversing(model, 4);
  refused({model, nullptr, whole.validation, whole.loss}, "the task lacks its batches");
  refused({model, whole.batch, nullptr, whole.loss}, "the task lacks its batches");
  refused({model, whole.batch, whole.validation, nullptr}, "the task lacks its batches");
  refused({model, [](int64_t) { return Batch{}; }, whole.validation, whole.loss},
          "the batches of step 1 have no tokens");
  refused({model, whole.batch, [] { return std::vector<Batch>{}; }, whole.loss},
          "the validation batches have no tokens");
  struct Empty : Module {
    void fields(Fields&) override {}
  } empty;
  refused({empty, whole.batch, whole.validation, whole.loss}, "the model has no parameters");
}
