#include "nn/training/trainer.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/allocator.h"
#include "core/creation.h"
#include "core/parallel.h"
#include "nn/generate.h"

using namespace vitrine;
using namespace vitrine::nn;
using namespace vitrine::nn::training;

namespace {

GptOptions tiny(double dropout = 0.1) {
  GptOptions o;
  o.vocabulary = 7;
  o.context = 16;
  o.width = 16;
  o.layers = 2;
  o.heads = 2;
  o.dropout = dropout;
  o.attention = "laser";
  return o;
}

/// 0 1 2 … 6 0 1 2 …: every next token is certain.
std::vector<int64_t> counting(int64_t n) {
  std::vector<int64_t> tokens;
  for (int64_t i = 0; i < n; ++i) tokens.push_back(i % 7);
  return tokens;
}

TrainingOptions quiet(int64_t steps) {
  TrainingOptions o;
  o.steps = steps;
  o.batch = 4;
  o.progress = false;
  return o;
}

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

TEST_CASE("metrics are a line of JSON per step, to which a resumed run appends") {
  const auto folder = std::filesystem::temp_directory_path();
  auto options = quiet(6);
  options.evaluate_every = 3;
  options.metrics = (folder / fmt::format("vitrine_metrics_{}.jsonl", getpid())).string();
  const auto saved = (folder / fmt::format("vitrine_metrics_{}.safetensors", getpid())).string();
  manual_seed(1);
  Gpt model(tiny());
  const auto schedule = optim::warmup_cosine(1e-2, 2, 6);
  {
    Trainer first(model, counting(300), counting(60), schedule, options);
    first.run([&] { return first.step() == 4; });
    first.save(saved);
  }
  Trainer second(model, counting(300), counting(60), schedule, options);
  second.resume(saved);
  second.run();
  std::vector<nlohmann::json> lines;
  std::ifstream in(options.metrics);
  for (std::string line; std::getline(in, line);) lines.push_back(nlohmann::json::parse(line));
  REQUIRE(lines.size() == 6);
  for (size_t i = 0; i < 6; ++i) {
    CHECK(lines[i]["step"] == i + 1);
    CHECK(lines[i]["lr"] == schedule(static_cast<int64_t>(i)));
    CHECK(lines[i].contains("validation_loss") == ((i + 1) % 3 == 0));
  }
  CHECK(lines[5]["loss"] == second.report().train_loss.y.back());
  CHECK(lines[5]["validation_loss"] == second.report().final_validation_loss);
  std::filesystem::remove(options.metrics);
  std::filesystem::remove(saved);
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

TEST_CASE("text becomes tokens and comes back, whatever its characters") {
  const std::string text = "a ∂ b\xff c 𝛼";
  const CharacterVocabulary vocabulary(text);
  CHECK(vocabulary.size() == 7);
  CHECK(vocabulary.decode(vocabulary.encode(text)) == text);
  CHECK_THROWS_WITH_AS(vocabulary.encode("z"), doctest::Contains("\"z\" does not occur"), Error);
  CHECK_THROWS_WITH_AS(vocabulary.decode({7}), doctest::Contains("outside [0, 7)"), Error);
}

TEST_CASE("the whole split is covered once") {
  const WindowLoader loader(counting(101), 3, 10, 1);
  int64_t tokens = 0;
  for (const Batch& b : loader.whole()) tokens += b.targets.numel();
  CHECK(tokens == 100);
  CHECK_THROWS_WITH_AS(WindowLoader(counting(10), 3, 10, 1), doctest::Contains("do not hold one window"),
                       Error);
}
