// Metrics of a task: they are in the record and in the metrics file, they select the best
// checkpoint, and a resumed run continues them.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/files/safetensors.h"
#include "nn/metrics/accuracy.h"
#include "nn/models/gpt.h"
#include "nn/report/report.h"
#include "nn/training/trainer.h"
#include "tests/folder.h"
#include "tests/nn/training/reverser.h"
#include "tests/nn/training/tiny.h"

using namespace vitrine;
using namespace vitrine::nn;
using namespace vitrine::nn::report;
using namespace vitrine::nn::training;
using test::quiet, test::Reverser, test::reversing;

namespace {

/// The task of reversing sequences, with its accuracy.
Task with_accuracy(Reverser& model) {
  Task task = reversing(model, 16);
  task.metrics = {accuracy_metric([&model](const Tensor& x) { return model.forward(x); })};
  return task;
}

/// A metric that returns these values, one per evaluation.
Task with_values(Reverser& model, std::vector<double> values, bool more_is_better) {
  Task task = reversing(model, 4);
  const auto next = std::make_shared<size_t>(0);
  task.metrics = {{.name = "score", .more_is_better = more_is_better, .of_split = [values, next](double) {
                     return values[(*next)++ % values.size()];
                   }}};
  return task;
}

/// Evaluates after each step, and keeps the best model by the metric.
TrainingOptions keeping_best(const test::Folder& folder, int64_t steps) {
  TrainingOptions options = quiet(steps);
  options.evaluate_every = 1;
  options.checkpoint = folder / "run.safetensors";
  options.best_by = "score";
  return options;
}

int64_t step_of(const std::string& checkpoint) {
  return std::stoll(read_safetensors(checkpoint).metadata.at("step"));
}

std::vector<nlohmann::json> lines_of(const std::string& path) {
  std::vector<nlohmann::json> lines;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

}  // namespace

TEST_CASE("accuracy rises while a model learns, counts the whole split, and is in file and report") {
  const test::Folder folder;
  Reverser model = test::seeded_reverser(1);
  TrainingOptions options = quiet(200);
  options.metrics = folder / "run.jsonl";
  Trainer trainer(with_accuracy(model), optim::warmup_cosine(1e-2, 10, 200), options);
  trainer.run();
  const MetricValues& metric = trainer.record().metrics.at(0);
  CHECK(metric.name == "accuracy");
  CHECK(metric.values.x == std::vector<double>{100, 200});
  CHECK(metric.last() > 0.9);
  WeightedSum all;
  for (const Batch& batch : reversing(model, 16).validation()) {
    const WeightedSum part = accuracy(model.forward(batch.tensors[0]), batch.tensors[1]);
    all.sum += part.sum, all.weight += part.weight;
  }
  CHECK(metric.last() == all.sum / all.weight);
  const auto lines = lines_of(options.metrics);
  CHECK(lines[199]["validation_accuracy"] == metric.last());
  CHECK(lines[199].contains("examples_per_second"));
  CHECK_FALSE(lines[198].contains("validation_accuracy"));
  const std::string page = render_report("t", {trainer.record()});
  CHECK(page.find("<h3>accuracy</h3>") != page.npos);
  for (const char* word : {"perplexity", "tokens per second", "nats per token", ">Sample<"})
    CHECK_MESSAGE(page.find(word) == page.npos, word);
}

TEST_CASE("the model that was the best by a metric is kept, whichever way is better") {
  for (const bool more : {true, false}) {
    const test::Folder folder;
    Reverser model = test::seeded_reverser(1);
    Trainer(with_values(model, {2, 5, NAN, 1, 3, 5}, more), optim::constant(1e-3), keeping_best(folder, 6))
        .run();
    CHECK(step_of(folder / "run.best.safetensors") == (more ? 2 : 4));
    CHECK(step_of(folder / "run.safetensors") == 6);
  }
}

TEST_CASE("the model that was the best by the loss is kept too, and a run goes on from it") {
  const test::Folder folder;
  Reverser model = test::seeded_reverser(1), again = test::seeded_reverser(2);
  TrainingOptions options = keeping_best(folder, 8);
  options.best_by = "loss";
  options.metrics = folder / "run.jsonl";
  const auto record = [&](Reverser& r, const std::string& resume) {
    Trainer trainer(reversing(r, 4), optim::constant(0.3), options);
    if (!resume.empty()) trainer.resume(resume);
    trainer.run();
    return trainer.record();
  };
  const RunRecord whole = record(model, "");
  const auto& y = whole.validation_loss.y;
  const auto best = std::min_element(y.begin(), y.end()) - y.begin() + 1;
  CHECK(step_of(folder / "run.best.safetensors") == best);
  CHECK(record(again, folder / "run.best.safetensors").validation_loss.y == y);
}

TEST_CASE("a resumed run knows the metrics and the best so far") {
  const test::Folder folder;
  Reverser model = test::seeded_reverser(1);
  TrainingOptions options = keeping_best(folder, 6);
  options.metrics = folder / "run.jsonl";
  Trainer first(with_values(model, {2, 9, 3}, true), optim::constant(1e-3), options);
  first.run([&] { return first.step() == 3; });
  CHECK(step_of(folder / "run.best.safetensors") == 2);
  first.save(folder / "third");
  // The best value is in the checkpoint, so neither the metrics file nor its lines are needed.
  const auto resumed = [&](const std::string& metrics, const std::string& best_by,
                           std::vector<double> values) {
    const test::Folder other;
    Reverser again = test::seeded_reverser(2);
    TrainingOptions more = keeping_best(other, 6);
    more.metrics = metrics, more.best_by = best_by;
    Trainer second(with_values(again, values, true), optim::constant(1e-3), more);
    second.resume(folder / "third");
    second.run();
    const std::string best = other / "run.best.safetensors";
    return std::pair{second.record(), std::filesystem::exists(best) ? step_of(best) : 0};
  };
  CHECK(resumed("", "score", {8, 8.5, 4}).second == 0);
  CHECK(resumed("", "score", {8, 9.5, 4}).second == 5);
  CHECK(resumed("", "loss", {8, 8.5, 4}).second > 3);  // another choice starts from the beginning
  std::filesystem::copy_file(folder / "run.jsonl", folder / "copy.jsonl");
  const RunRecord record = resumed(folder / "copy.jsonl", "score", {8, 8.5, 4}).first;
  CHECK(record.metrics[0].values.y == std::vector<double>{2, 9, 3, 8, 8.5, 4});
  CHECK(record.metrics[0].values.x == std::vector<double>{1, 2, 3, 4, 5, 6});
}

TEST_CASE("a run ends early when its evaluations stop improving, resumed or not") {
  const auto steps_of = [](const std::vector<double>& values, int64_t patience, bool more) {
    const test::Folder folder;
    Reverser model = test::seeded_reverser(1);
    TrainingOptions options = keeping_best(folder, 6);
    options.patience = patience;
    Trainer trainer(with_values(model, values, more), optim::constant(1e-3), options);
    trainer.run();
    CHECK(trainer.record().final_validation_loss == trainer.record().validation_loss.y.back());
    CHECK(step_of(folder / "run.safetensors") == trainer.step());
    return trainer.step();
  };
  CHECK(steps_of({2, 5, 4, 5, 6, 1}, 2, true) == 4);  // as good as the best is no better
  CHECK(steps_of({2, 5, 4, 6, 5, 5}, 2, true) == 6);  // a better one ends the count
  CHECK(steps_of({2, 5, NAN, 3, 1, 1}, 2, false) == 3);
  CHECK(steps_of({2, 5, 4, 3, 3, 3}, 0, false) == 6);

  const test::Folder folder;
  TrainingOptions options = keeping_best(folder, 6);
  options.patience = 3;
  const auto go_on = [&](std::vector<double> values, bool resumed, int64_t until) {
    Reverser model = test::seeded_reverser(1);
    Trainer trainer(with_values(model, std::move(values), true), optim::constant(1e-3), options);
    if (resumed) trainer.resume(options.checkpoint);
    trainer.run([&] { return trainer.step() == until; });
    CHECK(std::isfinite(trainer.record().final_validation_loss));
    return trainer.step();
  };
  CHECK(go_on({9, 2, 3}, false, 3) == 3);
  CHECK(go_on({4, 5, 6}, true, 6) == 4);  // the third that is worse
  CHECK(go_on({99}, true, 6) == 4);       // it has ended
  options.patience = 4;
  CHECK(go_on({5, 6}, true, 6) == 5);
}

TEST_CASE("metrics that cannot be measured, and a choice by what is no metric, are told") {
  Reverser model = test::seeded_reverser(1);
  const auto refused = [&](std::vector<Metric> metrics, const std::string& best_by, const char* message) {
    Task task = reversing(model, 4);
    task.metrics = std::move(metrics);
    TrainingOptions options = quiet(1);
    options.best_by = best_by;
    CHECK_THROWS_WITH_AS(Trainer(task, optim::constant(1), options), doctest::Contains(message), Error);
  };
  const auto one = [](double) { return 1.0; };
  refused({{.name = "f1"}}, "", "f1 has neither of_batch and of_split");
  refused({{.name = "f1", .of_split = one}, {.name = "f1", .of_split = one}}, "",
          "two metrics have the name f1");
  refused({{.name = "loss", .of_split = one}}, "", "two metrics have the name loss");
  refused({{.name = "f1", .of_split = one, .format = "{:d}"}}, "", "prints no number");
  refused({{.name = "f1", .of_split = one}}, "f2", "best-by is f2, wanted loss or f1");
  refused({{.name = "f1", .of_split = one}}, "f1", "there is no checkpoint to write");
  TrainingOptions patient = quiet(1);
  patient.patience = 2;
  CHECK_THROWS_WITH_AS(Trainer(reversing(model, 4), optim::constant(1), patient),
                       doctest::Contains("patience is 2, and best-by does not say"), Error);
}

TEST_CASE("a language model has perplexity, and its report the words of text") {
  manual_seed(1);
  Gpt model(test::tiny());
  Trainer trainer(test::text(model, test::counting(300), test::counting(60)), optim::constant(1e-3),
                  quiet(2));
  trainer.run();
  const RunRecord& record = trainer.record();
  CHECK(record.metrics.at(0).name == "perplexity");
  CHECK(record.metrics[0].last() == doctest::Approx(std::exp(record.final_validation_loss)));
  CHECK(record.words.classes == 7);
  const std::string page = render_report("t", {record});
  for (const char* word : {"perplexity", "tokens per second", "nats per token", ">Sample<", "ln 7 = 1.95"})
    CHECK_MESSAGE(page.find(word) != page.npos, word);
}

TEST_CASE("the best checkpoint has the name of the checkpoint") {
  CHECK(best_checkpoint_of("a.b/laser.safetensors") == "a.b/laser.best.safetensors");
  CHECK(best_checkpoint_of("laser") == "laser.best");
}
