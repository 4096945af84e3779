// Runs that are resumed from a mutated checkpoint or from mutated metrics. VITRINE_FUZZ_ROUNDS and
// VITRINE_FUZZ_SEED as in tests/core/files/fuzz.h.
#include <doctest/doctest.h>

#include <cstring>
#include <ctime>
#include <filesystem>

#include "tests/core/files/fuzz.h"
#include "tests/environment.h"
#include "tests/folder.h"
#include "tests/nn/training/tiny.h"

using namespace vitrine;
using namespace vitrine::nn;
using namespace vitrine::nn::training;

namespace {

/// The bytes of a safetensors file whose metadata are mutated. They are the first member of the
/// header, whose length is that of the result.
std::string with_mutated_metadata(const std::string& file, Generator& random) {
  uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof(length));
  const size_t end = file.find('}', 8);
  const std::string metadata = test::mutated(file.substr(8, end - 8), "0123456789[]{}\":,\\-.enul", random);
  const std::string header = metadata + file.substr(end, 8 + length - end);
  const uint64_t now = header.size();
  std::string result(sizeof(now), '\0');
  std::memcpy(result.data(), &now, sizeof(now));
  return result + header + file.substr(8 + length);
}

}  // namespace

TEST_CASE(
    "a run is resumed from a mutated file and makes a step, or the file is refused and nothing changes") {
  const test::Folder folder;
  const std::string checkpoint = folder / "checkpoint", metrics = folder / "metrics.jsonl";
  TrainingOptions options = test::quiet(6);
  options.evaluate_every = 2;
  options.metrics = metrics;
  const optim::Schedule schedule = optim::warmup_cosine(1e-2, 2, 6);
  const auto task = [](Gpt& model) { return test::text(model, test::counting(100), test::counting(40), 2); };
  {
    manual_seed(1);
    Gpt model(test::tiny());
    Trainer trainer(task(model), schedule, options);
    trainer.run([&] { return trainer.step() == 3; });
    trainer.save(checkpoint);
  }
  const std::string saved = test::bytes_of_file(checkpoint), lines = test::bytes_of_file(metrics);
  const auto rounds = test::from_environment("VITRINE_FUZZ_ROUNDS", 100);
  Generator random(static_cast<uint64_t>(test::from_environment("VITRINE_FUZZ_SEED", 1)));
  int64_t refused[2] = {0, 0};
  for (int64_t round = 0; round < rounds; ++round) {
    const bool damaged_metrics = round % 2 == 1;
    const std::string text =
        damaged_metrics ? test::mutated(lines, "0123456789[]{}\":,-.eE\nnul", random) : lines;
    const std::string model_file = damaged_metrics ? saved : with_mutated_metadata(saved, random);
    INFO(text, "\n", model_file.substr(0, model_file.find('}', 8)));
    std::filesystem::remove(metrics);
    test::write_bytes(metrics, text);
    std::filesystem::remove(checkpoint);
    test::write_bytes(checkpoint, model_file);
    manual_seed(2);
    Gpt model(test::tiny());
    Trainer trainer(task(model), schedule, options);
    const std::vector<double> before = test::all_values(model);
    const std::clock_t start = std::clock();
    try {
      trainer.resume(checkpoint);
      trainer.run([&] { return trainer.step() == 4; });
      CHECK(trainer.step() == 4);
      CHECK(trainer.record().train_loss.x.size() == trainer.record().train_loss.y.size());
    } catch (const Error& error) {
      CHECK(std::string(error.what()).size() < 4000);
      CHECK(test::all_values(model) == before);
      CHECK(trainer.step() == 0);
      ++refused[round % 2];
    }
    CHECK(std::clock() - start <= 2 * CLOCKS_PER_SEC);
  }
  for (const int64_t count : refused) CHECK(count > rounds / 20);
  CHECK(refused[1] < rounds / 2);
}
