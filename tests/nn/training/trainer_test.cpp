#include "nn/training/trainer.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "core/allocator.h"
#include "core/creation.h"
#include "core/parallel.h"
#include "nn/generate.h"
#include "ops/loss.h"
#include "tests/nn/training/tiny.h"

using namespace vitrine;
using namespace vitrine::nn;
using namespace vitrine::nn::training;
using test::counting, test::quiet, test::tiny;

namespace {

std::vector<double> all_values(Gpt& model) {
  std::vector<double> result;
  for (const auto& [name, x] : model.state_dict())
    for (double v : x.values()) result.push_back(v);
  return result;
}

std::vector<double> train(int64_t steps, int64_t stop_at = -1) {
  const auto path =
      (std::filesystem::temp_directory_path() / fmt::format("vitrine_trainer_{}", getpid())).string();
  manual_seed(3);
  auto model = std::make_unique<Gpt>(tiny());
  const auto schedule = optim::warmup_cosine(1e-2, 5, 40);
  if (stop_at >= 0) {
    Trainer first(*model, counting(300), counting(60), schedule, quiet(steps));
    first.run([&] { return first.step() == stop_at; });
    first.save(path);
    manual_seed(99);
    model = std::make_unique<Gpt>(tiny());
    Trainer second(*model, counting(300), counting(60), schedule, quiet(steps));
    second.resume(path);
    std::filesystem::remove(path);
    second.run();
  } else {
    Trainer(*model, counting(300), counting(60), schedule, quiet(steps)).run();
  }
  return all_values(*model);
}

}  // namespace

TEST_CASE("a GPT learns to count") {
  manual_seed(1);
  Gpt model(tiny(0));
  Trainer trainer(model, counting(500), counting(100), optim::warmup_cosine(1e-2, 10, 150), quiet(150));
  CHECK(trainer.validation_loss() == doctest::Approx(std::log(7)).epsilon(0.05));
  trainer.run();
  CHECK(trainer.validation_loss() < 0.1);
  CHECK(trainer.report().grad_norm_by_path[1].k.y.size() == 15);
  CHECK(generate(model, {0, 1, 2}, 4, {.temperature = 0}) == std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6});
}

TEST_CASE("two runs with one seed, and a run that was stopped and resumed, have the same bits") {
  const auto through = train(20);
  CHECK(train(20) == through);
  CHECK(train(20, 11) == through);
}

TEST_CASE("training has the same bits on 1, 2, 3 and 7 threads") {
  const int before = threads();
  std::vector<std::vector<double>> results;
  for (int count : {1, 2, 3, 7}) {
    set_threads(count);
    results.push_back(train(8));
  }
  set_threads(before);
  for (const auto& r : results) CHECK(r == results[0]);
}

TEST_CASE("micro-batches accumulate to the step of their mean") {
  std::vector<std::vector<double>> values;
  for (const int64_t accumulate : {1, 3}) {
    manual_seed(1);
    Gpt model(tiny(0));
    auto options = quiet(2);
    options.accumulate = accumulate;
    options.clip = 0;
    options.optimizer = "sgd";  // unlike Adam it sees the scale of gradients
    const auto one_window = counting(17);
    Trainer(model, one_window, one_window, optim::constant(0.1), options).run();
    values.push_back(all_values(model));
  }
  for (size_t i = 0; i < values[0].size(); ++i) CHECK(std::abs(values[0][i] - values[1][i]) < 1e-5);
}

TEST_CASE("a steady training step takes no memory from the system") {
  manual_seed(1);
  Gpt model(tiny());
  Trainer trainer(model, counting(500), counting(100), optim::constant(1e-3), quiet(30));
  size_t reserved = 0;
  trainer.run([&] {
    if (trainer.step() == 15) reserved = memory::statistics().reserved;
    if (trainer.step() > 15 && trainer.step() < 30) CHECK(memory::statistics().reserved <= reserved);
    return false;
  });
}

TEST_CASE("the peak of memory is that of the run, not of what ran before") {
  constexpr int64_t kLarge = 1 << 24;
  { const Tensor before = zeros({kLarge}); }
  manual_seed(1);
  Gpt model(tiny());
  Trainer trainer(model, counting(300), counting(60), optim::constant(1e-3), quiet(2));
  trainer.run();
  CHECK(trainer.report().peak_memory_bytes > 4.0 * static_cast<double>(model.parameter_count()));
  CHECK(trainer.report().peak_memory_bytes < 4.0 * kLarge);
}

TEST_CASE("text becomes tokens and comes back, whatever its characters") {
  const std::string text = "a ∂ b\xff c 𝛼";
  const CharacterVocabulary vocabulary(text);
  CHECK(vocabulary.size() == 7);
  CHECK(vocabulary.decode(vocabulary.encode(text)) == text);
  CHECK_THROWS_WITH_AS(vocabulary.encode("z"), doctest::Contains("\"z\" at position 0 does not occur"),
                       Error);
  CHECK_THROWS_WITH_AS(vocabulary.decode({7}), doctest::Contains("outside [0, 7)"), Error);
}

TEST_CASE("the whole split is covered once, with a shorter window at its end") {
  const auto text = counting(105);
  std::vector<double> seen;
  const auto batches = WindowLoader(text, 3, 10, 1).whole();
  for (const Batch& b : batches)
    for (double id : b.targets.values()) seen.push_back(id);
  CHECK(seen == std::vector<double>(text.begin() + 1, text.end()));
  CHECK(batches.front().inputs.shape() == Shape{3, 10});
  CHECK(batches.back().inputs.shape() == Shape{1, 4});
  CHECK_THROWS_WITH_AS(WindowLoader(counting(10), 3, 10, 1), doctest::Contains("do not hold one window"),
                       Error);
}

TEST_CASE("the validation loss is the mean over tokens, whatever the sizes of the windows") {
  manual_seed(1);
  Gpt model(tiny());
  Trainer trainer(model, counting(300), counting(20), optim::constant(1e-3), quiet(1));
  const double mean = trainer.validation_loss();
  model.eval();
  double sum = 0;
  for (auto [begin, size] : {std::pair{0, 16}, {16, 3}}) {
    Tensor x = empty({1, size}, DType::int64), y = empty({1, size}, DType::int64);
    for (int64_t t = 0; t < size; ++t) {
      x.data<int64_t>()[t] = (begin + t) % 7;
      y.data<int64_t>()[t] = (begin + t + 1) % 7;
    }
    sum += size * cross_entropy(model.forward(x), y).item();
  }
  CHECK(mean == doctest::Approx(sum / 19).epsilon(1e-6));
}
