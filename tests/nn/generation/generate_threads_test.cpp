// Several threads generate from one model.
#include <doctest/doctest.h>

#include <thread>

#include "nn/generation/generate.h"
#include "nn/models/gpt.h"
#include "ops/reduce.h"
#include "tests/nn/models/tiny_gpt.h"

using namespace vitrine;

namespace {

nn::Gpt model_with_dropout() {
  auto options = test::tiny_gpt();
  options.dropout = 0.5;
  nn::Gpt model(options);
  for (Parameter& p : model.parameters()) {
    Generator g(p.name().size());
    p.assign(randn(p.shape(), DType::float32, Device::cpu, 0, 0.5, g));
  }
  return model;
}

}  // namespace

TEST_CASE(
    "threads that generate from one model at a time give what one thread gives, and leave its mode alone") {
  nn::Gpt model = model_with_dropout();
  const auto want = generate(model, {1, 2}, 30, {.temperature = 0});
  std::vector<std::vector<int64_t>> got(4);
  for (int round = 0; round < 5; ++round) {
    std::vector<std::thread> threads;
    for (auto& tokens : got)
      threads.emplace_back([&] {
        for (int i = 0; i < 5; ++i) tokens = generate(model, {1, 2}, 30, {.temperature = 0});
      });
    for (std::thread& t : threads) t.join();
    for (const auto& tokens : got) CHECK(tokens == want);
    CHECK(model.training());
    model.apply([](const std::string& path, nn::Module& m) { CHECK_MESSAGE(m.training(), path); });
  }
}

TEST_CASE("generation writes nothing into the model, so that threads may share it: not even names") {
  nn::Gpt model = model_with_dropout();
  Parameter first = model.parameters().front();
  first.set_name("mine");
  generate(model, {1, 2}, 3, {.temperature = 0});
  CHECK(first.name() == "mine");
}

TEST_CASE("a scope of modes is seen on its thread alone, and by the module that it names") {
  nn::Gpt model = model_with_dropout();
  nn::Dropout other(0.5);
  const nn::ModeScope evaluation(model, false);
  CHECK(!model.training());
  CHECK(!model.decoder.blocks[0]->dropout.training());
  CHECK(other.training());
  bool elsewhere = false;
  std::thread([&] { elsewhere = model.training() && model.decoder.blocks[0]->dropout.training(); }).join();
  CHECK(elsewhere);
  {
    const nn::ModeScope training(*model.decoder.blocks[0], true);
    CHECK(model.decoder.blocks[0]->dropout.training());
    CHECK(!model.decoder.blocks[1]->dropout.training());
  }
  CHECK(!model.decoder.blocks[0]->dropout.training());
}
