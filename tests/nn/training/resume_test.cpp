// Resuming a run from a checkpoint: what it must share with the original run, and what its metrics
// and report contain afterwards.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/creation.h"
#include "core/files/safetensors.h"
#include "nn/text/read_text.h"
#include "tests/folder.h"
#include "tests/nn/training/tiny.h"

using namespace vitrine;
using namespace vitrine::nn;
using namespace vitrine::nn::report;
using namespace vitrine::nn::training;
using test::counting, test::quiet, test::text, test::tiny;

namespace fs = std::filesystem;

namespace {

/// Trains six steps of one setting, with metrics in a folder, in as many parts as a test requires.
struct ResumedRun {
  ResumedRun() {
    options.evaluate_every = 3;
    options.metrics = folder / "metrics.jsonl";
  }

  /// Trains from the start, or from the checkpoint `from`, up to step `stop`, then saves as `to`.
  RunRecord go(const std::string& from, int64_t stop, const std::string& to) const {
    manual_seed(from.empty() ? 1 : 99);
    Gpt gpt(model);
    gpt.to(dtype);
    Trainer trainer(text(gpt, counting(training), counting(validation), batch, seed), schedule, options);
    if (!from.empty()) trainer.resume(folder / from);
    trainer.run([&] { return trainer.step() == stop; });
    trainer.save(folder / to);
    return trainer.record();
  }
  std::vector<nlohmann::json> lines() const {
    std::vector<nlohmann::json> result;
    std::ifstream in(options.metrics);
    for (std::string line; std::getline(in, line);) result.push_back(nlohmann::json::parse(line));
    return result;
  }

  test::Folder folder;
  TrainingOptions options = quiet(6);
  optim::Schedule schedule = optim::warmup_cosine(1e-2, 2, 6);
  int64_t training = 300, validation = 60, batch = 4;
  uint64_t seed = 1;
  GptOptions model = tiny();
  DType dtype = DType::float32;
};

void check_equal(const Series& x, const Series& y) {
  CHECK(x.x == y.x);
  CHECK(x.y == y.y);
}

void check_whole(const RunRecord& record, const RunRecord& whole) {
  check_equal(record.train_loss, whole.train_loss);
  check_equal(record.validation_loss, whole.validation_loss);
  check_equal(record.learning_rate, whole.learning_rate);
  CHECK(record.speed.x == whole.speed.x);
  CHECK(record.final_validation_loss == whole.final_validation_loss);
  for (size_t layer = 0; layer < 2; ++layer) {
    CHECK(!record.grad_norm_by_layer[layer].y.empty());
    check_equal(record.grad_norm_by_layer[layer], whole.grad_norm_by_layer[layer]);
    check_equal(record.grad_norm_by_path[layer].q, whole.grad_norm_by_path[layer].q);
    check_equal(record.grad_norm_by_path[layer].k, whole.grad_norm_by_path[layer].k);
    check_equal(record.grad_norm_by_path[layer].v, whole.grad_norm_by_path[layer].v);
  }
}

}  // namespace

TEST_CASE("metrics are a line of JSON per step, and a run that is resumed twice has each step once") {
  ResumedRun run;
  const RunRecord whole = run.go("", 6, "whole");
  run.go("", 4, "four");
  run.go("four", 6, "six");
  // A line that a crash has truncated
  std::ofstream(run.options.metrics, std::ios::app) << R"({"step":7,"los)";
  const RunRecord record = run.go("four", 6, "six");
  const auto lines = run.lines();
  REQUIRE(lines.size() == 6);
  for (size_t i = 0; i < 6; ++i) {
    CHECK(lines[i]["step"] == i + 1);
    CHECK(lines[i]["loss"] == whole.train_loss.y[i]);
    CHECK(lines[i]["lr"] == run.schedule(static_cast<int64_t>(i)));
    CHECK(lines[i].contains("validation_loss") == ((i + 1) % 3 == 0));
  }
  CHECK(lines[5]["validation_loss"] == record.final_validation_loss);
  check_whole(record, whole);
}

TEST_CASE("a finished run that is resumed keeps its metrics, curves and validation loss") {
  ResumedRun run;
  const RunRecord whole = run.go("", 6, "six");
  const std::string metrics = read_text(run.options.metrics);
  check_whole(run.go("six", 6, "again"), whole);
  CHECK(read_text(run.options.metrics) == metrics);
  CHECK((read_text(run.folder / "again") == read_text(run.folder / "six")));
  fs::remove(run.options.metrics);  // without it, the loss is unknown
  CHECK(run.go("six", 6, "again").final_validation_loss == whole.final_validation_loss);
}

TEST_CASE("a trainer that goes back to a checkpoint forgets what it has done since") {
  ResumedRun run;
  const RunRecord whole = run.go("", 6, "whole");
  const std::string four = run.folder / "four";
  manual_seed(1);
  Gpt gpt(run.model);
  Trainer trainer(text(gpt, counting(run.training), counting(run.validation), run.batch, run.seed),
                  run.schedule, run.options);
  trainer.run([&] { return trainer.step() == 4; });
  trainer.save(four);
  trainer.run();
  trainer.resume(four);
  CHECK(trainer.record().train_loss.x.size() == 4);
  CHECK(run.lines().size() == 4);
  trainer.run();
  check_whole(trainer.record(), whole);
  const auto lines = run.lines();
  REQUIRE(lines.size() == 6);
  for (size_t i = 0; i < 6; ++i) CHECK(lines[i]["loss"] == whole.train_loss.y[i]);
}

TEST_CASE("in 16 bits too a resumed run has the bits of the run that was not stopped") {
  for (const DType dtype : {DType::bfloat16, DType::float16}) {
    CAPTURE(name(dtype));
    ResumedRun run;
    run.dtype = dtype;
    run.go("", 6, "whole");
    run.go("", 4, "four");
    run.go("four", 6, "six");
    CHECK((read_text(run.folder / "six") == read_text(run.folder / "whole")));
  }
}

TEST_CASE("a loss scale that no float16 run has come to is refused") {
  ResumedRun run;
  run.dtype = DType::float16;
  run.go("", 4, "four");
  const auto go_on = [&](const char* scale) {
    Safetensors file = read_safetensors(run.folder / "four");
    file.metadata["loss_scale"] = scale;
    write_safetensors(run.folder / "changed", file);
    run.go("changed", 5, "five");
  };
  for (const char* scale : {"inf 0", "nan 0", "0 0", "-2 0", "0.5 0", "3 0", "65536 -1", "65536 2000",
                            "65536", "65536 0 0", "65536  0", "65536 0x1"})
    CHECK_THROWS_WITH_AS(go_on(scale), doctest::Contains(fmt::format("loss_scale is \"{}\"", scale).c_str()),
                         Error);
  for (const char* scale : {"65536 1999", "1 0", "1.6777216e+07 5"}) go_on(scale);
}

TEST_CASE("a weight or a moment that is not finite is refused by its name") {
  ResumedRun run;
  run.go("", 4, "four");
  const Safetensors whole = read_safetensors(run.folder / "four");
  int weights = 0, moments = 0;
  for (const auto& [name, x] : whole.tensors) {
    const bool moment = name.ends_with("/moment2");
    if (!moment && !name.starts_with("model/")) continue;
    (moment ? moments : weights)++;
    if ((moment ? moments : weights) > 2) continue;
    for (const double value : {std::numeric_limits<double>::infinity(), std::nan("")}) {
      Safetensors file = whole;
      file.tensors.at(name) = full(x.shape(), value, x.dtype());
      write_safetensors(run.folder / "changed", file);
      CHECK_THROWS_WITH_AS(run.go("changed", 5, "five"), doctest::Contains(name.c_str()), Error);
    }
  }
  CHECK(weights > 0);
  CHECK(moments > 0);
}

TEST_CASE("checkpoints are saved on the way") {
  ResumedRun run;
  run.options.checkpoint = run.folder / "last";
  run.options.save_every = 2;
  manual_seed(1);
  Gpt model(tiny());
  Trainer trainer(text(model, counting(run.training), counting(run.validation)), run.schedule, run.options);
  std::vector<std::string> steps;
  trainer.run([&] {
    const bool there = fs::exists(run.options.checkpoint);
    steps.push_back(there ? read_safetensors(run.options.checkpoint).metadata.at("step") : "none");
    return false;
  });
  CHECK(steps == std::vector<std::string>{"none", "none", "2", "2", "4", "4"});
  CHECK(read_safetensors(run.options.checkpoint).metadata.at("step") == "6");
}

TEST_CASE("what differs from the run that is resumed is an error that names it") {
  ResumedRun run;
  run.go("", 4, "four");
  const auto refused = [&run](auto& field, auto value, const char* message) {
    const auto before = std::exchange(field, value);
    CHECK_THROWS_WITH_AS(run.go("four", 6, "six"), doctest::Contains(message), Error);
    field = before;
  };
  refused(run.seed, 2, "four is 1, of this run 2");
  refused(run.batch, 3, "the batch of ");
  refused(run.options.accumulate, 2, "four is 1, of this run 2");
  refused(run.options.optimizer, "nadam", "four is adamw, of this run nadam");
  refused(run.options.weight_decay, 0.2, "the weight-decay of ");
  refused(run.options.beta1, 0.8, "the beta1 of ");
  refused(run.options.beta2, 0.999, "the beta2 of ");
  refused(run.options.clip, 0, "four is 1, of this run 0");
  refused(run.dtype, DType::bfloat16, "four is float32, of this run bfloat16");
  refused(run.training, 299, "four is 300 tokens of hash");
  refused(run.validation, 59, "of this run 59 tokens of hash");
  refused(run.model.mixer, "standard", "four is laser, of this run standard");
  refused(run.model.heads, 4, "the heads of ");
  refused(run.model.key_heads, 1, "the key-heads of ");
  refused(run.model.hidden, 24, "the hidden of ");
  refused(run.model.dropout, 0.2, "four is 0.1, of this run 0.2");
  refused(run.model.activation, Activation::relu, "four is gelu_tanh, of this run relu");
  refused(run.model.norm, NormKind::rms, "four is layer, of this run rms");
  refused(run.model.residual, Residual::post, "the residual of ");
  refused(run.model.bias, Bias::no, "four is false, of this run true");
  refused(run.model.positions, Positions::sinusoidal, "four is learned, of this run sinusoidal");
  const auto cosine = optim::warmup_cosine;
  refused(run.schedule, cosine(2e-2, 2, 6, 0), "the learning rate of step 2 of ");
  refused(run.schedule, cosine(1e-2, 1, 6, 0), "four is 0.005, of this run 0.01");
  refused(run.schedule, cosine(1e-2, 2, 8, 0), "the learning rate of step 4 of ");
  refused(run.schedule, optim::warmup_linear(1e-2, 2, 6), "the learning rate of step 4 of ");
  run.go("four", 6, "six");
}

TEST_CASE("options that an optimizer lacks are not compared, and those that it has are") {
  ResumedRun run;
  run.go("", 2, "two");
  run.options.momentum = 0.5;
  run.go("two", 4, "four");  // adamw has none
  run.options.optimizer = "sgd";
  run.go("", 2, "two");
  run.options.momentum = 0.9;
  CHECK_THROWS_WITH_AS(run.go("two", 4, "four"), doctest::Contains("the momentum of "), Error);
}

TEST_CASE("a run with moments in bfloat16 keeps them in its checkpoint, and goes on with the same bits") {
  ResumedRun run;
  run.options.moments = "bfloat16";
  run.go("", 6, "whole");
  run.go("", 2, "two");
  run.go("two", 6, "six");
  CHECK((read_text(run.folder / "six") == read_text(run.folder / "whole")));
  size_t moments = 0;
  for (const auto& [name, x] : read_safetensors(run.folder / "six").tensors)
    if (name.find("/moment") != std::string::npos) {
      ++moments;
      CHECK(x.dtype() == DType::bfloat16);
    }
  CHECK(moments > 0);
  run.options.moments = "float32";
  CHECK_THROWS_WITH_AS(run.go("two", 6, "six"), doctest::Contains("two is bfloat16, of this run float32"),
                       Error);
}

TEST_CASE("a run may be made longer where its learning rates so far are those of the longer run") {
  ResumedRun run;
  run.schedule = optim::constant(1e-2);
  run.options.steps = 8;
  run.go("", 8, "whole");
  run.options.steps = 4;
  run.go("", 4, "four");
  run.options.steps = 8;
  run.go("four", 8, "eight");
  CHECK((read_text(run.folder / "eight") == read_text(run.folder / "whole")));
}

TEST_CASE("with --new-schedule a run goes on with other learning rates, and its checkpoints record it") {
  ResumedRun run;
  run.schedule = optim::constant(1e-2);
  run.go("", 4, "four");
  run.schedule = optim::constant(5e-3);
  const char* refusal = "four is 0.01, of this run 0.005; --new-schedule changes the schedule after step 4";
  CHECK_THROWS_WITH_AS(run.go("four", 5, "five"), doctest::Contains(refusal), Error);
  run.options.new_schedule = true;
  run.go("four", 5, "five");
  const char* change = "after step 4: learning rate 0.01, then 0.005";
  CHECK(run.lines().back()["new_schedule"] == change);
  CHECK(run.lines().back()["lr"] == 5e-3);
  CHECK(read_safetensors(run.folder / "five").metadata.at("schedule changes") == "[[4,0.01,0.005]]");

  // From here on, this is the run to resume. The rates after the change must be the same, and those
  // before it are kept.
  run.options.new_schedule = false;
  run.go("five", 6, "six");
  CHECK(read_safetensors(run.folder / "six").metadata.at("learning rates") ==
        "[[1,0.01],[2,0.01],[4,0.01],[6,0.005]]");
  run.schedule = optim::constant(1e-2);
  CHECK_THROWS_WITH_AS(run.go("five", 6, "six"), doctest::Contains("the learning rate of step 5 of "), Error);
  run.options.new_schedule = true;
  run.go("five", 6, "six");
  CHECK(read_safetensors(run.folder / "six").metadata.at("schedule changes") ==
        "[[4,0.01,0.005],[5,0.005,0.01]]");
}

TEST_CASE("a change before the first step of a new schedule is compared by that step's rate, and replaced") {
  ResumedRun run;
  run.schedule = optim::constant(1e-2);
  run.go("", 4, "four");
  run.options.new_schedule = true;
  run.schedule = optim::constant(5e-3);
  run.go("four", 4, "changed");
  run.options.new_schedule = false;
  run.schedule = optim::constant(1e-3);
  CHECK_THROWS_WITH_AS(run.go("changed", 5, "five"), doctest::Contains("changed is 0.005, of this run 0.001"),
                       Error);
  run.options.new_schedule = true;
  run.go("changed", 5, "five");
  CHECK(read_safetensors(run.folder / "five").metadata.at("schedule changes") == "[[4,0.01,0.001]]");
}

TEST_CASE("--new-schedule without another schedule changes nothing") {
  ResumedRun run;
  run.go("", 6, "whole");
  run.go("", 4, "four");
  run.options.new_schedule = true;
  run.go("four", 6, "six");
  CHECK((read_text(run.folder / "six") == read_text(run.folder / "whole")));
}

TEST_CASE("learning rates of a checkpoint that are broken are an error") {
  ResumedRun run;
  run.go("", 4, "four");
  const auto go_on = [&](const char* key, const char* value) {
    Safetensors file = read_safetensors(run.folder / "four");
    file.metadata[key] = value;
    write_safetensors(run.folder / "changed", file);
    run.go("changed", 5, "five");
  };
  for (const char* value :
       {"", "0.01", "{}", "[1]", "[[1]]", "[[1,\"a\"]]", "[[1,0.01,2]]", "[[0,0.01]]", "[[5,0.01]]",
        "[[2,0.01],[1,0.01]]", "[[1.5,0.01]]", "[[1,null]]", "[[1,0.01]", "[]"})
    CHECK_THROWS_WITH_AS(go_on("learning rates", value), doctest::Contains("changed is broken: "), Error);
  for (const char* value : {"", "4", "[[4,0.01]]", "[[5,0.01,0.02]]"})
    CHECK_THROWS_WITH_AS(go_on("schedule changes", value), doctest::Contains("changed is broken: "), Error);
}

TEST_CASE("metrics of another run are refused, and left as they are") {
  ResumedRun run, other;
  other.options.metrics = run.options.metrics;
  run.go("", 4, "four");
  for (const int64_t steps : {3, 6}) {  // without a step 4, and with a different step 4
    other.seed = 2;
    other.go("", steps, "other");
    const std::string metrics = read_text(other.options.metrics);
    CHECK_THROWS_WITH_AS(run.go("four", 6, "six"), doctest::Contains("is not of the run of "), Error);
    CHECK(read_text(other.options.metrics) == metrics);
  }
  for (const char* notes : {"not metrics at all\n", "{\"step\":50,\"loss\":1}\n",
                            "{\"step\":4,\"loss\":null}\n", "{\"step\":4}\n"}) {
    std::ofstream(run.options.metrics) << notes;
    CHECK_THROWS_WITH_AS(run.go("four", 6, "six"), doctest::Contains("is not of the run of "), Error);
    CHECK(read_text(run.options.metrics) == notes);
  }
  std::ofstream(run.options.metrics).close();  // empty
  run.go("four", 6, "six");
}

TEST_CASE("the time of a resumed run is that of all its parts, and its peak the largest of them") {
  ResumedRun run;
  const double first = run.go("", 4, "four").seconds;
  std::string text = read_text(run.options.metrics);
  const size_t last = text.rfind("\"seconds\":") + 10;
  CHECK(std::stod(text.substr(last)) <= first + 1e-3);        // as it is rounded
  text.replace(last, text.find(',', last) - last, "1000.5");  // a slow machine
  std::ofstream(run.options.metrics) << text;
  const double seconds = run.go("four", 6, "six").seconds;
  CHECK(seconds > 1000.5);
  CHECK(seconds < 1100);
  CHECK(run.lines().back()["seconds"].get<double>() > 1000);
  const RunRecord trained = run.go("", 6, "six");
  // Loading it needs less
  CHECK(run.go("six", 6, "again").peak_memory_bytes == trained.peak_memory_bytes);
}

TEST_CASE("metrics that cannot be written end the run, whose checkpoint is saved") {
  ResumedRun run;
  run.options.metrics = "/dev/full";  // rejects all writes, like a full disk
  CHECK_THROWS_WITH_AS(run.go("", 6, "six"), doctest::Contains("cannot write /dev/full: No space left"),
                       Error);
  run.options.checkpoint = run.folder / "last";
  CHECK_THROWS_WITH_AS(run.go("", 6, "six"), doctest::Contains("; the run after step 1 is in "), Error);
  CHECK(read_safetensors(run.options.checkpoint).metadata.at("step") == "1");
}

TEST_CASE("metrics that are deleted or replaced during a run end it, and its checkpoint is saved") {
  for (const bool replaced : {false, true}) {
    ResumedRun run;
    run.options.checkpoint = run.folder / "last";
    manual_seed(1);
    Gpt model(tiny());
    Trainer trainer(text(model, counting(run.training), counting(run.validation)), run.schedule, run.options);
    const auto stop = [&] {
      if (trainer.step() == 2) fs::rename(run.options.metrics, run.folder / "moved");
      if (trainer.step() == 2 && replaced) std::ofstream(run.options.metrics) << "other\n";
      return false;
    };
    CHECK_THROWS_WITH_AS(trainer.run(stop), doctest::Contains("was deleted or replaced"), Error);
    CHECK(read_safetensors(run.options.checkpoint).metadata.at("step") == "3");
    if (replaced) CHECK(read_text(run.options.metrics) == "other\n");
  }
}

TEST_CASE("a second run with the same checkpoint or metrics is an error that names the first") {
  ResumedRun run;
  run.options.checkpoint = run.folder / "last";
  Gpt model(tiny());
  const auto trainer = [&](const TrainingOptions& options) {
    return Trainer(text(model, counting(run.training), counting(run.validation)), run.schedule, options);
  };
  TrainingOptions other = quiet(1);
  fs::create_symlink(run.folder.path, run.folder / "link");
  {
    const Trainer first = trainer(run.options);
    const std::string holder = fmt::format("is in use by another run, process {} on ", ::getpid());
    for (const auto& [checkpoint, metrics] :
         {std::pair{"last", ""}, {"", "metrics.jsonl"}, {"link/last", ""}}) {
      other.checkpoint = *checkpoint ? run.folder / checkpoint : "";
      other.metrics = *metrics ? run.folder / metrics : "";
      CHECK_THROWS_WITH_AS(trainer(other), doctest::Contains(holder.c_str()), Error);
    }
    other.checkpoint = run.folder / "another";
    trainer(other);
  }
  trainer(run.options);
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(run.folder.path)) names.push_back(entry.path().filename());
  CHECK(names == std::vector<std::string>{"link"});  // the locks have been removed
}

TEST_CASE("a run that is resumed at step 0 leaves the metrics of another run as they are") {
  ResumedRun run;
  run.go("", 0, "none");
  for (const char* notes : {"{\"step\":1,\"loss\":2}\n", "not metrics at all\n"}) {
    std::ofstream(run.options.metrics) << notes;
    CHECK_THROWS_WITH_AS(run.go("none", 2, "two"), doctest::Contains("is not of the run of "), Error);
    CHECK(read_text(run.options.metrics) == notes);
  }
  std::ofstream(run.options.metrics).close();
  run.go("none", 6, "six");
  CHECK(run.lines().size() == 6);
}
