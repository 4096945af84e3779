// The rules of reference data, and of their runners, on this program as it runs for somebody who
// has other cases.
#include "tests/data.h"

#include <doctest/doctest.h>
#include <sys/wait.h>

#include <cmath>
#include <cstdlib>

#include "core/creation.h"
#include "core/files/safetensors.h"
#include "tests/cases.h"
#include "tests/folder.h"

using namespace vitrine;
using namespace vitrine::test;

namespace {

namespace fs = std::filesystem;

const std::string kTruth = "*/tests/nn/truth_cases_test.cpp", kOptim = "*/tests/optim/truth_cases_test.cpp",
                  kOnnx = "*/tests/ops/onnx_cases_test.cpp", kCs336 = "*/tests/nn/cs336/cases_test.cpp",
                  kKeras = "*/tests/optim/keras_cases_test.cpp";

struct Outcome {
  int code;
  std::string output;
};

/// Runs a file of tests in a process whose environment is set by `environment`.
Outcome run_tests(const std::string& environment, const std::string& tests, const Folder& folder) {
  const std::string log = folder / "log";
  const int status = std::system(fmt::format("{} '{}' '--source-file={}' > '{}' 2>&1", environment,
                                             fs::read_symlink("/proc/self/exe").string(), tests, log)
                                     .c_str());
  return {WEXITSTATUS(status), bytes_of_file(log)};
}

Outcome run_with(const std::string& data, const std::string& tests, const Folder& folder) {
  return run_tests(fmt::format("VITRINE_DATA='{}'", data), tests, folder);
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

/// A data directory of the test's own.
struct Data : Folder {
  void write_json(const std::string& name, const Json& json) const {
    fs::create_directories((path / name).parent_path());
    write_bytes(*this / name, json.dump());
  }
  void write_tensors(const std::string& name, const Tensors& tensors) const {
    fs::create_directories((path / name).parent_path());
    write_safetensors(*this / name, {{tensors.begin(), tensors.end()}, {}});
  }
};

Tensor float64(std::initializer_list<double> values) { return tensor(values, DType::float64); }

/// The slopes of ALiBi for two heads, with further settings.
Json slopes_case(const std::string& name, Json params = Json::object()) {
  params["heads"] = 2;
  return {{"name", name},
          {"file", name + ".safetensors"},
          {"op", "alibi_slopes"},
          {"params", params},
          {"inputs", Json::array()},
          {"outputs", {"o"}},
          {"gradients", Json::array()}};
}

/// A directory with that one case.
struct OneCase : Data {
  explicit OneCase(const Json& params = Json::object(), double second_slope = 0.00390625) {
    write_json("truth_cases/manifest.json", {{"cases", {slopes_case("slopes", params)}}});
    write_tensors("truth_cases/slopes.safetensors", {{"out.o", float64({0.0625, second_slope})}});
  }
  std::string file() const { return *this / "truth_cases/slopes.safetensors"; }
};

}  // namespace

TEST_CASE("golden cases run without a data directory; other cases say in one line that they are skipped") {
  const Folder folder;
  for (const std::string& golden : {kTruth, kOptim}) {
    const Outcome outcome = run_tests("env -u VITRINE_DATA", golden, folder);
    CHECK_MESSAGE(outcome.code == 0, outcome.output);
    CHECK_MESSAGE(!contains(outcome.output, "SKIPPED"), outcome.output);
  }
  for (const std::string& other : {kOnnx, kCs336, kKeras}) {
    const Outcome outcome = run_tests("env -u VITRINE_DATA", other, folder);
    CHECK_MESSAGE(outcome.code == 77, outcome.output);
    CHECK_MESSAGE(count(outcome.output, "SKIPPED, NOT PASSED: VITRINE_DATA does not name") == 1,
                  outcome.output);
  }
}

TEST_CASE("golden cases that are missing are an error") {
  CHECK_THROWS_WITH_AS(case_folders("no_such_set"), doctest::Contains("no_such_set are missing"), Error);
}

TEST_CASE("another directory runs what its manifest lists, however little that is") {
  const OneCase folder;
  const Outcome outcome = run_with(folder.path.string(), kTruth, folder);
  CHECK_MESSAGE(outcome.code == 0, outcome.output);
}

TEST_CASE("a case of another directory that is not met is a failure") {
  const OneCase folder(Json::object(), 0.0039);
  const Outcome outcome = run_with(folder.path.string(), kTruth, folder);
  CHECK(outcome.code == 1);
  CHECK_MESSAGE(contains(outcome.output, "slopes: the output o is off by"), outcome.output);
}

TEST_CASE("a setting that the adapter does not read is a failure that names it") {
  const OneCase folder(Json{{"base", 4.0}});
  const Outcome outcome = run_with(folder.path.string(), kTruth, folder);
  CHECK(outcome.code == 1);
  CHECK_MESSAGE(
      contains(outcome.output, "the case sets base, which the adapter of alibi_slopes does not read"),
      outcome.output);
}

TEST_CASE("remarks of a case are no settings") {
  const OneCase folder(Json{{"convention", true}, {"exact_only", true}});
  CHECK(run_with(folder.path.string(), kTruth, folder).code == 0);
}

TEST_CASE("a directory without cases is skipped, not passed") {
  const Folder folder;
  const Outcome outcome = run_with(folder.path.string(), kOnnx, folder);
  CHECK(outcome.code == 77);
  CHECK_MESSAGE(contains(outcome.output, "there is no " + (folder / "onnx_node_cases")), outcome.output);
}

TEST_CASE("a directory that is not there is a failure") {
  const Folder folder;
  for (const std::string& tests : {kTruth, kOnnx}) {
    const Outcome outcome = run_with(folder / "none", tests, folder);
    CHECK(outcome.code == 1);
    CHECK_MESSAGE(contains(outcome.output, "none, which is not a folder"), outcome.output);
  }
}

TEST_CASE("a file of cases that is cut short is a failure that names it") {
  const OneCase folder;
  for (uintmax_t bytes : {fs::file_size(folder.file()) - 1, uintmax_t{20}, uintmax_t{0}}) {
    fs::resize_file(folder.file(), bytes);
    const Outcome outcome = run_with(folder.path.string(), kTruth, folder);
    CHECK(outcome.code == 1);
    CHECK_MESSAGE(contains(outcome.output, folder.file()), outcome.output);
  }
}

TEST_CASE("a manifest that is no JSON is a failure that names it") {
  const OneCase folder;
  const std::string manifest = folder / "truth_cases/manifest.json";
  fs::resize_file(manifest, 9);
  const Outcome outcome = run_with(folder.path.string(), kTruth, folder);
  CHECK(outcome.code == 1);
  CHECK_MESSAGE(contains(outcome.output, manifest + " is no JSON"), outcome.output);
}

TEST_CASE("a runner reports each failing case by name, counts the cases that ran, and goes on") {
  CaseRunner runner("tests/optim/keras_skips.txt");
  std::vector<int> seen;
  const Json cases = {
      {{"name", "good"}, {"i", 1}}, {{"name", "bad"}, {"i", 2}}, {{"i", 3}},
      {{"name", "Ftrl"}, {"i", 4}}, {{"name", "broken"}},        {{"name", "last"}, {"i", 6}}};
  runner.run(cases, "name", [&](const Json& c) {
    const int i = c.at("i");
    seen.push_back(i);
    if (c.contains("name") && runner.skips(c.at("name"))) return;
    check(i % 3 != 2, "{} is wrong", i);
    adapter_of(std::map<std::string, int>{{"known", 1}}, "op", i == 3 ? "strange" : "known");
  });
  CHECK(seen == std::vector<int>{1, 2, 3, 4, 6});
  CHECK(runner.ran() == 5);
  CHECK(runner.skipped() == 1);
  CHECK_MESSAGE(contains(runner.failures(), "bad: 2 is wrong\n"), runner.failures());
  CHECK_MESSAGE(contains(runner.failures(), "case 2 of the manifest: the op strange has no adapter"),
                runner.failures());
  CHECK_MESSAGE(contains(runner.failures(), "broken: "), runner.failures());
  CHECK(count(runner.failures(), "\n") == 3);
  CHECK(contains(runner.unused_skips(), "AdamW, epsilon 2"));
  CHECK(!contains(runner.unused_skips(), "Adamax"));
}

TEST_CASE("unknown and broken cases are reported by name after the others have run, by every runner") {
  Data data;
  const Tensor x = float64({1, 2});
  // In each manifest: an unknown case, one whose file is missing, one that is wrong. All three must
  // be reported.
  for (const std::string set : {"truth_cases", "truth_cases_2"}) {
    Json unknown = slopes_case("strange_" + set);
    unknown["op"] = "strange_op";
    data.write_json(set + "/manifest.json",
                    {{"cases", {unknown, slopes_case("missing_" + set), slopes_case("wrong_" + set)}}});
    data.write_tensors(set + "/wrong_" + set + ".safetensors", {{"out.o", x}});
  }
  const auto run = [](const char* name, const char* rule) {
    return Json{{"rule", rule}, {"hyper", Json::object()}, {"x", name}, {"g", "g"}};
  };
  data.write_json(
      "truth_cases/optim.json",
      {{"runs", {run("strange_run", "strange"), run("missing_run", "sgd"), run("wrong_run", "sgd")}}});
  data.write_tensors("truth_cases/optim.safetensors", {{"wrong_run", tensor({1, 1}, {2, 1}, DType::float64)},
                                                       {"g", tensor({1}, {1, 1}, DType::float64)}});
  const auto onnx = [](const char* name, const char* op) {
    return Json{{"case", name},
                {"op", op},
                {"opset", 20},
                {"group", "strange"},
                {"file", std::string(name) + ".safetensors"},
                {"attributes", Json::object()},
                {"inputs", {{{"slot", 0}, {"tensor", "x"}, {"dtype", "F64"}}}},
                {"outputs", {{{"slot", 0}, {"tensor", "y"}, {"dtype", "F64"}}}}};
  };
  data.write_json(
      "onnx_node_cases/manifest.json",
      {{"cases", {onnx("strange_node", "Strange"), onnx("missing_node", "Abs"), onnx("wrong_node", "Neg")}}});
  for (const char* name : {"strange_node", "wrong_node"})
    data.write_tensors(fmt::format("onnx_node_cases/{}.safetensors", name), {{"x", x}, {"y", x}});
  const auto lecture = [](const char* name) {
    return Json{{"case", name}, {"file", std::string(name) + ".safetensors"}, {"atol", 0.01}};
  };
  data.write_json("cs336_cases/manifest.json",
                  {{"cases", {lecture("strange_lesson"), lecture("missing_silu"), lecture("wrong_silu")}}});
  for (const char* name : {"strange_lesson", "wrong_silu"})
    data.write_tensors(fmt::format("cs336_cases/{}.safetensors", name), {{"input", x}, {"expected", x}});
  const auto golden = [](const char* optimizer, const Json& settings) {
    return Json{
        {"optimizer", optimizer}, {"settings", settings}, {"rtol", 0}, {"atol", 1e-9}, {"after_step", {{0}}}};
  };
  data.write_json("keras_optimizer_cases.json",
                  {{"cases",
                    {golden("Strange", Json::object()), golden("SGD", Json::object()),
                     golden("RMSprop", {{"learning_rate", 1}, {"rho", 0.5}})}}});

  const std::string where = data.path.string();
  for (const auto& [tests, names] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {kTruth,
            {"strange_truth_cases: the op strange_op has no adapter", "missing_truth_cases: ",
             "wrong_truth_cases: ", "strange_truth_cases_2: the op strange_op has no adapter",
             "wrong_truth_cases_2: "}},
           {kOptim,
            {"strange_run: the rule strange has no adapter",
             "missing_run: ", "wrong_run: the point of step 1 is off"}},
           {kOnnx,
            {"strange_node: the operator Strange has no adapter",
             "missing_node: ", "wrong_node: output 0 is off"}},
           {kCs336,
            {"strange_lesson: no adapter computes strange_lesson",
             "missing_silu: ", "wrong_silu: element 0"}},
           {kKeras,
            {"Strange: the optimizer Strange has no adapter", "SGD: the case sets no learning_rate",
             "RMSprop: step 1"}}}) {
    const Outcome outcome = run_with(where, tests, data);
    CHECK(outcome.code == 1);
    for (const std::string& name : names) {
      const std::string missing = fmt::format("{} does not report {}\n{}", tests, name, outcome.output);
      CHECK_MESSAGE(contains(outcome.output, name), missing);
    }
  }
}

TEST_CASE("ONNX's MeanVarianceNormalization normalizes over the axes that it is given, or 0, 2 and 3") {
  Data data;
  const auto entry = [](const char* name, const Json& attributes) {
    return Json{{"case", name},
                {"op", "MeanVarianceNormalization"},
                {"opset", 13},
                {"group", "norm"},
                {"file", "one.safetensors"},
                {"attributes", attributes},
                {"inputs", {{{"slot", 0}, {"tensor", "x"}, {"dtype", "F64"}}}},
                {"outputs", {{{"slot", 0}, {"tensor", name}, {"dtype", "F64"}}}}};
  };
  // x [2, 2, 1, 2]: channel 0 has 1, 3, 5, 7 and channel 1 has 2, 2, 4, 4; each row of two by
  // itself.
  const auto shaped = [](std::initializer_list<double> v) { return tensor(v, {2, 2, 1, 2}, DType::float64); };
  const double r = std::sqrt(5.0) + 1e-9, s = 1 + 1e-9;
  data.write_json("onnx_node_cases/manifest.json",
                  {{"cases", {entry("usual", Json::object()), entry("last", {{"axes", {3}}})}}});
  data.write_tensors("onnx_node_cases/one.safetensors",
                     {{"x", shaped({1, 3, 2, 2, 5, 7, 4, 4})},
                      {"usual", shaped({-3 / r, -1 / r, -1 / s, -1 / s, 1 / r, 3 / r, 1 / s, 1 / s})},
                      {"last", shaped({-1 / s, 1 / s, 0, 0, -1 / s, 1 / s, 0, 0})}});
  const Outcome outcome = run_with(data.path.string(), kOnnx, data);
  CHECK_MESSAGE(outcome.code == 0, outcome.output);
}

TEST_CASE(
    "a directory of Keras's cases may have Adagrad, Lamb, Nesterov without momentum, no epsilon, and Adamax") {
  Data data;
  const double g[] = {0.01, 0.1};  // of the first element at the first two steps
  const auto golden = [](const char* optimizer, const Json& settings, const std::vector<double>& x) {
    Json steps = Json::array();
    for (double value : x) steps.push_back(std::vector<double>(10, value));
    return Json{
        {"optimizer", optimizer}, {"settings", settings}, {"rtol", 0}, {"atol", 1e-6}, {"after_step", steps}};
  };
  // The gradients of the first step are all 0.01, so that all elements agree after it.
  const double after_sgd = 1 - 0.5 * g[0];
  const double adagrad = 1 - 0.5 * g[0] / std::sqrt(0.3 + g[0] * g[0]);
  const double lamb = 1 - 0.5;  // all of u are 1: the ratio of the norms is 1
  const double decayed = (1 - 0.5 * 0.1) - 0.5 * g[0];
  data.write_json(
      "keras_optimizer_cases.json",
      {{"cases",
        {golden("SGD", {{"learning_rate", 0.5}, {"momentum", 0.0}, {"nesterov", true}}, {after_sgd}),
         golden("SGD", {{"learning_rate", 0.5}, {"weight_decay", 0.1}}, {decayed}),
         golden("Adagrad", {{"learning_rate", 0.5}, {"initial_accumulator_value", 0.3}, {"epsilon", nullptr}},
                {adagrad}),
         golden("Lamb", {{"learning_rate", 0.5}, {"beta_1", 0.9}, {"beta_2", 0.999}, {"epsilon", 1e-12}},
                {lamb}),
         golden("Adamax", {{"learning_rate", 0.5}, {"beta_1", 0.9}, {"beta_2", 0.999}, {"epsilon", 1e-12}},
                {1 - 0.5}),  // the first direction is the sign of the gradient
         golden("SGD", {{"learning_rate", 0.5}}, {after_sgd})}}});
  const Outcome outcome = run_with(data.path.string(), kKeras, data);
  CHECK_MESSAGE(outcome.code == 0, outcome.output);
}
