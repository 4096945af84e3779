// The rules of the data directory, on this program as it runs for somebody who has another directory of cases.
#include "tests/data.h"

#include <doctest/doctest.h>
#include <sys/wait.h>

#include <cstdlib>

#include "core/creation.h"
#include "core/safetensors.h"
#include "tests/folder.h"
#include "tests/noted.h"

using namespace vitrine;
using namespace vitrine::test;

namespace {

namespace fs = std::filesystem;

struct Outcome {
  int code;
  std::string output;
};

/// Runs the reference cases of ops in a process whose data directory is `path`.
Outcome run_cases(const std::string& path, const Folder& folder) {
  const std::string log = folder / "log";
  const int status = std::system(fmt::format("VITRINE_DATA='{}' '{}' '--source-file={}' > '{}' 2>&1", path,
                                             fs::read_symlink("/proc/self/exe").string(),
                                             "*/tests/nn/truth_cases_test.cpp", log)
                                     .c_str());
  return {WEXITSTATUS(status), bytes_of_file(log)};
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// A directory with one case, the slopes of ALiBi for two heads, and what is set beside the heads.
struct OneCase : Folder {
  explicit OneCase(Json params = Json::object(), double second_slope = 0.00390625) {
    fs::create_directories(path / "truth_cases");
    params["heads"] = 2;
    const Json one = {{"name", "slopes"},          {"file", "slopes.safetensors"}, {"op", "alibi_slopes"},
                      {"params", params},          {"inputs", Json::array()},      {"outputs", {"o"}},
                      {"gradients", Json::array()}};
    write_bytes(*this / "truth_cases/manifest.json", Json{{"cases", {one}}}.dump());
    write_safetensors(file(), {{{"out.o", tensor({0.0625, second_slope}, {2}, DType::float64)}}, {}});
  }
  std::string file() const { return *this / "truth_cases/slopes.safetensors"; }
};

}  // namespace

TEST_CASE("another directory runs what its manifest lists, however little that is") {
  const OneCase folder;
  const Outcome outcome = run_cases(folder.path.string(), folder);
  CHECK_MESSAGE(outcome.code == 0, outcome.output);
}

TEST_CASE("a case of another directory that is not met is a failure") {
  const OneCase folder(Json::object(), 0.0039);
  const Outcome outcome = run_cases(folder.path.string(), folder);
  CHECK(outcome.code == 1);
  CHECK_MESSAGE(contains(outcome.output, "slopes: the output is off by"), outcome.output);
}

TEST_CASE("a setting that the adapter does not read is a failure that names it") {
  const OneCase folder(Json{{"base", 4.0}});
  const Outcome outcome = run_cases(folder.path.string(), folder);
  CHECK(outcome.code == 1);
  CHECK_MESSAGE(
      contains(outcome.output, "the case sets base, which the adapter of alibi_slopes does not read"),
      outcome.output);
}

TEST_CASE("remarks of a case are no settings") {
  const OneCase folder(Json{{"convention", true}, {"exact_only", true}});
  CHECK(run_cases(folder.path.string(), folder).code == 0);
}

TEST_CASE("a directory without cases is skipped, not passed") {
  const Folder folder;
  const Outcome outcome = run_cases(folder.path.string(), folder);
  CHECK(outcome.code == 77);
  CHECK_MESSAGE(contains(outcome.output, "there is no " + (folder / "truth_cases/manifest.json")),
                outcome.output);
}

TEST_CASE("a directory that is not there is a failure") {
  const Folder folder;
  const Outcome outcome = run_cases(folder / "none", folder);
  CHECK(outcome.code == 1);
  CHECK_MESSAGE(contains(outcome.output, "none, which is not a folder"), outcome.output);
}

TEST_CASE("a file of cases that is cut short is a failure that names it") {
  const OneCase folder;
  for (uintmax_t bytes : {fs::file_size(folder.file()) - 1, uintmax_t{20}, uintmax_t{0}}) {
    fs::resize_file(folder.file(), bytes);
    const Outcome outcome = run_cases(folder.path.string(), folder);
    CHECK(outcome.code == 1);
    CHECK_MESSAGE(contains(outcome.output, folder.file()), outcome.output);
  }
}

TEST_CASE("a manifest that is no JSON is a failure that names it") {
  const OneCase folder;
  const std::string manifest = folder / "truth_cases/manifest.json";
  fs::resize_file(manifest, 9);
  const Outcome outcome = run_cases(folder.path.string(), folder);
  CHECK(outcome.code == 1);
  CHECK_MESSAGE(contains(outcome.output, manifest + " is no JSON"), outcome.output);
}
