// The runs of a comparison: their names and files, where they go on, and what becomes of the others when one ends badly.
#include "nn/training/sweep.h"

#include <doctest/doctest.h>

#include "core/files/safetensors.h"
#include "tests/folder.h"

using namespace vitrine;
using namespace vitrine::nn::report;
using namespace vitrine::nn::training;

namespace {

/// A checkpoint as a trainer names it.
std::string save(const std::string& path, const char* attention) {
  write_safetensors(path, {.tensors = {}, .metadata = {{"attention", attention}, {"seed", "1"}}});
  return path;
}

RunRecord named(const Run& run) {
  RunRecord record;
  record.name = run.name;
  return record;
}

std::vector<std::string> names_of(const std::vector<RunRecord>& records) {
  std::vector<std::string> names;
  for (const RunRecord& record : records) names.push_back(record.name);
  return names;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("each attention runs with each seed, under a name and files of its own") {
  const auto runs = plan_runs({"scale=2", "laser"}, {7, 8}, "out");
  REQUIRE(runs.size() == 4);
  CHECK(runs[1].attention == "scale=2");
  CHECK(runs[1].seed == 8);
  CHECK(runs[1].name == "scale=2, seed 8");
  CHECK(runs[1].files == "out/scale-2-seed8");
  CHECK(runs[2].name == "laser, seed 7");
  for (const Run& run : runs) {
    CHECK(run.checkpoint == run.files + ".safetensors");
    CHECK(run.go_on == run.checkpoint);
    CHECK(run.resume.empty());
  }
  const auto alone = plan_runs({"laser"}, {7}, "out");
  CHECK(alone[0].name == "laser");
  CHECK(alone[0].files == "out/laser");
}

TEST_CASE("from the checkpoint of one run those before it go on too, and those after it begin") {
  const test::Folder folder;
  save(folder / "standard.safetensors", "standard");
  save(folder / "cosine.safetensors", "cosine");
  const std::string laser = save(folder / "somewhere", "laser");
  const auto runs = plan_runs({"standard", "softcap=9", "laser", "cosine"}, {1}, folder.path.string(), laser);
  CHECK(runs[0].resume == runs[0].checkpoint);
  CHECK(runs[1].resume.empty());  // it has left none
  CHECK(runs[2].resume == laser);
  CHECK(runs[3].resume.empty());
  // To go on from an early run would train the resumed one again.
  CHECK(runs[0].go_on == laser);
  CHECK(runs[1].go_on == laser);
  CHECK(runs[2].go_on == runs[2].checkpoint);
}

TEST_CASE("a checkpoint of none of the runs is an error") {
  const test::Folder folder;
  const std::string laser = save(folder / "x", "laser");
  const std::string wanted =
      fmt::format("resume: {} is of the attention \"laser\" and the seed \"1\", none of these runs", laser);
  CHECK_THROWS_WITH_AS(plan_runs({"standard"}, {1}, folder.path.string(), laser), wanted.c_str(), Error);
  CHECK_THROWS_WITH_AS(plan_runs({"laser"}, {2}, folder.path.string(), laser), wanted.c_str(), Error);
}

TEST_CASE("the mean loss of each method that has several runs is a line") {
  const auto run = [](const char* method, double loss) {
    RunRecord record;
    record.method = method;
    record.final_validation_loss = loss;
    return record;
  };
  CHECK(mean_losses(
            {run("laser", 1), run("cosine", 5), run("standard", 2), run("laser", 2), run("standard", 4)}) ==
        "laser: mean validation loss 1.5000 of 2 seeds\nstandard: mean validation loss 3.0000 of 2 seeds\n");
}

TEST_CASE("a run that fails leaves the others to go on, and any other error ends them") {
  const auto runs = plan_runs({"standard", "laser", "cosine"}, {1}, "out");
  const auto records = train_runs(runs, [](const Run& run) -> RunRecord {
    if (run.attention == "laser") throw FailedRun("not finite", named(run));
    return named(run);
  });
  CHECK(names_of(records.trained) == Names{"standard", "cosine"});
  CHECK(names_of(records.failed) == Names{"laser"});

  Names begun;
  CHECK_THROWS_WITH_AS(train_runs(runs,
                                  [&](const Run& run) {
                                    begun.push_back(run.name);
                                    if (run.attention == "laser") fail("a broken checkpoint");
                                    return named(run);
                                  }),
                       "a broken checkpoint", Error);
  CHECK(begun == Names{"standard", "laser"});
}

TEST_CASE("a comparison that is stopped begins no further run, but its first") {
  const auto runs = plan_runs({"standard", "laser", "cosine"}, {1}, "out");
  bool stopped = true;
  CHECK(names_of(train_runs(runs, named, [&] { return stopped; }).trained) == Names{"standard"});
  stopped = false;
  const auto train = [&](const Run& run) {
    stopped = run.attention == "laser";  // Ctrl-C while this one trains
    return named(run);
  };
  CHECK(names_of(train_runs(runs, train, [&] { return stopped; }).trained) == Names{"standard", "laser"});
}
