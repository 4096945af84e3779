// The runs of a comparison: their names and files, where they resume, and the effect of a failed
// run on the others.
#include "nn/training/sweep.h"

#include <doctest/doctest.h>

#include "core/files/safetensors.h"
#include "tests/folder.h"

using namespace vitrine;
using namespace vitrine::nn::report;
using namespace vitrine::nn::training;

namespace {

using Names = std::vector<std::string>;
using Metadata = std::map<std::string, std::string>;

/// A checkpoint with the options that a trainer stores.
std::string save(const std::string& path, const Metadata& options) {
  write_safetensors(path, {.tensors = {}, .metadata = options});
  return path;
}

RunRecord named(const Run& run) {
  RunRecord record;
  record.name = run.name;
  return record;
}

Names names_of(const std::vector<RunRecord>& records) {
  Names names;
  for (const RunRecord& record : records) names.push_back(record.name);
  return names;
}

/// Options that may differ between the runs of a program.
struct Settings {
  std::string mixer = "standard", optimizer = "adamw", out;
  int64_t width = 4;
  double lr = 1e-3;
  uint64_t seed = 1;

  void list(vitrine::nn::OptionList& o) {
    using vitrine::nn::Role;
    o("mixer", mixer, "");
    o("optimizer", optimizer, "").also("optim");
    o("width", width, "").at_least(1);
    o("lr", lr, "").decides(Role::schedule);
    o("seed", seed, "");
    o("out", out, "").decides(Role::files);
  }
};

std::vector<SweepAxis> axes_of(const Names& words, const std::string& given = "") {
  Settings settings;
  vitrine::nn::OptionList options = vitrine::nn::options_of(settings);
  if (!given.empty()) options.find(given)->given = "--" + given;
  return parse_axes(words, "mixer", {"laser", "softcap", "rotary"}, options);
}

std::vector<Run> three_attentions() {
  return plan_runs({{"mixer", {"standard", "laser", "cosine"}}, {"seed", {"1"}}}, "out");
}

}  // namespace

TEST_CASE("each value runs with each of the other options, under a name and files of its own") {
  const auto runs = plan_runs({{"mixer", {"scale=2", "laser"}}, {"seed", {"7", "8"}}}, "out");
  REQUIRE(runs.size() == 4);
  CHECK(runs[1].value("mixer") == "scale=2");
  CHECK(runs[1].value("seed") == "8");
  CHECK(runs[1].name == "scale=2, seed 8");
  CHECK(runs[1].method == "scale=2");
  CHECK(runs[1].files == "out/scale-2-seed8");
  CHECK(runs[2].name == "laser, seed 7");
  for (const Run& run : runs) {
    CHECK(run.checkpoint == run.files + ".safetensors");
    CHECK(run.go_on == run.checkpoint);
    CHECK(run.resume.empty());
  }
  const auto alone = plan_runs({{"mixer", {"laser"}}, {"seed", {"7"}}}, "out");
  CHECK(alone[0].name == "laser");
  CHECK(alone[0].files == "out/laser");
  CHECK_THROWS_WITH_AS(alone[0].value("width"), doctest::Contains("no option width"), Error);
}

TEST_CASE("anything that has a name is compared: optimizers, norms and sizes with each other") {
  const auto runs = plan_runs(
      {{"optimizer", {"adamw", "lion"}}, {"norm", {"rms"}}, {"width", {"32", "64"}}, {"seed", {"1", "2"}}},
      "out");
  REQUIRE(runs.size() == 8);
  CHECK(runs[7].name == "optimizer lion, width 64, seed 2");
  CHECK(runs[7].method == "optimizer lion, width 64");
  CHECK(runs[7].files == "out/optimizer-lion-width-64-seed2");
  CHECK(runs[7].value("norm") == "rms");
  CHECK(runs[1].options == std::vector<std::pair<std::string, std::string>>{
                               {"optimizer", "adamw"}, {"norm", "rms"}, {"width", "32"}, {"seed", "2"}});
}

TEST_CASE("words of a command line are axes") {
  const auto axes = axes_of({"standard", "softcap=20", "laser+rotary=theta=9", "optim=adamw", "lion",
                             "width=+8", "lr=1e-2", "0.020"});
  REQUIRE(axes.size() == 4);
  CHECK(axes[0].option == "mixer");
  CHECK(axes[0].values == Names{"standard", "softcap=20", "laser+rotary=theta=9"});
  CHECK(axes[1].option == "optimizer");
  CHECK(axes[1].values == Names{"adamw", "lion"});
  CHECK(axes[2].values == Names{"8"});
  CHECK(axes[3].values == Names{"0.01", "0.02"});
  CHECK(axes_of({}).empty());
}

TEST_CASE("words that are no axes are errors that say what was wanted") {
  const auto refused = [](const Names& words, const char* message) {
    CHECK_THROWS_WITH_AS(axes_of(words), message, Error);
  };
  refused({"optimzer=adamw"},
          "--compare optimzer=adamw: there is no option or part optimzer; did you mean optimizer?");
  refused({"softcp=2"}, "--compare softcp=2: there is no option or part softcp; did you mean softcap?");
  refused({"optimizer=adamw", "widht=8"}, "--compare widht=8: there is no option widht; did you mean width?");
  refused({"optimizer=adamw", "softcap=8"}, "--compare softcap=8: there is no option softcap");
  refused({"width=8", "x"}, "--compare width is x, wanted a whole number below 2^63, at least 1");
  refused({"width=0"}, "--compare width is 0, wanted at least 1");
  refused({"out=a", "b"}, "--compare: --out is the same for all runs");
  CHECK_THROWS_WITH_AS(axes_of({"width=8"}, "width"),
                       "--compare width=… is in place of --width, and both are given", Error);
}

TEST_CASE("axes that cannot be compared are told") {
  const auto refused = [](const std::vector<SweepAxis>& axes, const char* message) {
    CHECK_THROWS_WITH_AS(plan_runs(axes, "out"), doctest::Contains(message), Error);
  };
  refused({}, "nothing to compare");
  refused({{"width", {}}}, "width has no values");
  refused({{"width", {"8", ""}}}, "width has an empty value");
  refused({{"seed", {"1", "2", "1"}}}, "seed names 1 twice");
  refused({{"seed", {"1"}}, {"seed", {"2"}}}, "seed is given twice");
  refused({{"mixer", {"scale=2", "scale-2"}}}, "two runs would write out/scale-2");
}

TEST_CASE("from the checkpoint of one run those before it go on too, and those after it begin") {
  const test::Folder folder;
  save(folder / "standard.safetensors", {{"mixer", "standard"}, {"seed", "1"}});
  save(folder / "cosine.safetensors", {{"mixer", "cosine"}, {"seed", "1"}});
  const std::string laser = save(folder / "somewhere", {{"mixer", "laser"}, {"seed", "1"}, {"width", "8"}});
  const auto runs = plan_runs({{"mixer", {"standard", "softcap=9", "laser", "cosine"}}, {"seed", {"1"}}},
                              folder.path.string(), laser);
  CHECK(runs[0].resume == runs[0].checkpoint);
  CHECK(runs[1].resume.empty());  // it has no checkpoint
  CHECK(runs[2].resume == laser);
  CHECK(runs[3].resume.empty());
  // Resuming from an early run would train the resumed run again.
  CHECK(runs[0].go_on == laser);
  CHECK(runs[1].go_on == laser);
  CHECK(runs[2].go_on == runs[2].checkpoint);
}

TEST_CASE("a checkpoint of none of the runs is an error") {
  const test::Folder folder;
  const std::string laser = save(folder / "x", {{"mixer", "laser"}, {"seed", "1"}});
  const std::string wanted =
      fmt::format("resume: {} is of the mixer \"laser\" and the seed \"1\", none of these runs", laser);
  const std::string out = folder.path.string();
  CHECK_THROWS_WITH_AS(plan_runs({{"mixer", {"standard"}}, {"seed", {"1"}}}, out, laser), wanted.c_str(),
                       Error);
  CHECK_THROWS_WITH_AS(plan_runs({{"mixer", {"laser"}}, {"seed", {"2"}}}, out, laser), wanted.c_str(), Error);
}

TEST_CASE("where checkpoints do not store the option that tells runs apart, the path decides") {
  const test::Folder folder;
  const std::vector<SweepAxis> axes = {{"lr", {"0.1", "0.2"}}, {"seed", {"1"}}};
  const std::string second = save(folder / "lr-0.2.safetensors", {{"seed", "1"}});
  CHECK(plan_runs(axes, folder.path.string(), second)[1].resume == second);
  const std::string elsewhere = save(folder / "x", {{"seed", "1"}});
  CHECK_THROWS_WITH_AS(plan_runs(axes, folder.path.string(), elsewhere),
                       doctest::Contains("may be of 2 of these"), Error);
}

TEST_CASE("a run that fails leaves the others to go on, and any other error ends them") {
  const auto runs = three_attentions();
  const auto records = train_runs(runs, [](const Run& run) -> RunRecord {
    if (run.name == "laser") throw FailedRun("not finite", named(run));
    return named(run);
  });
  CHECK(names_of(records.trained) == Names{"standard", "cosine"});
  CHECK(names_of(records.failed) == Names{"laser"});

  Names begun;
  CHECK_THROWS_WITH_AS(train_runs(runs,
                                  [&](const Run& run) {
                                    begun.push_back(run.name);
                                    if (run.name == "laser") fail("a broken checkpoint");
                                    return named(run);
                                  }),
                       "a broken checkpoint", Error);
  CHECK(begun == Names{"standard", "laser"});
}

TEST_CASE("a comparison that is stopped begins no further run, but its first") {
  const auto runs = three_attentions();
  bool stopped = true;
  CHECK(names_of(train_runs(runs, named, [&] { return stopped; }).trained) == Names{"standard"});
  stopped = false;
  const auto train = [&](const Run& run) {
    stopped = run.name == "laser";  // Ctrl-C during this run
    return named(run);
  };
  CHECK(names_of(train_runs(runs, train, [&] { return stopped; }).trained) == Names{"standard", "laser"});
}
