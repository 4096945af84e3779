#include "nn/training/report.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/error.h"

using namespace vitrine;
using namespace vitrine::nn::training;

namespace {

RunReport sample_run(const std::string& name) {
  RunReport run;
  run.name = name;
  run.settings = {{"attention", name}, {"steps", "3"}};
  run.train_loss = {"training", {1, 2, 3}, {3.0, NAN, 2.0}};
  run.validation_loss = {"validation", {3}, {2.125}};
  run.final_validation_loss = 2.125;
  HeadStatistics head;
  head.entropy = 1.5;
  head.entropy_limit = 2;
  head.jacobian = 0.25;
  run.heads = {head};
  run.maps = {{0, 0, {"<a>", "b"}, {"<a>", "b"}, {1, 0, 0.5, 0.5}}};
  for (float w : {1.0f, 0.5f, 1e-4f, 1e-8f}) run.weights.add(w);
  run.sample = "<script>alert(1)</script> \xff";
  return run;
}

}  // namespace

TEST_CASE("the report shows the figures and escapes what the model wrote") {
  const std::string page = render_report("one & two", {sample_run("standard"), sample_run("laser")});
  CHECK(page.find("one &amp; two") != std::string::npos);
  CHECK(page.find("2.125") != std::string::npos);
  CHECK(page.find("laser") != std::string::npos);
  CHECK(page.find("<script>alert(1)") == std::string::npos);
  CHECK(page.find("\xff") == std::string::npos);
  CHECK(page.find("http://") ==
        page.find("http://www.w3.org"));  // nothing is loaded; only namespaces name a host
}

TEST_CASE("the shares of small weights are counted") {
  const RunReport run = sample_run("x");
  CHECK(run.weights.total() == 4);
  CHECK(run.weights.share_below(-3) == doctest::Approx(0.5));
  CHECK(run.weights.share_below(-7) == doctest::Approx(0.25));
}

TEST_CASE("unequal series and maps are refused") {
  RunReport run = sample_run("x");
  run.train_loss.y.pop_back();
  CHECK_THROWS_AS(render_report("t", {run}), Error);
  run = sample_run("x");
  run.maps[0].weights.pop_back();
  CHECK_THROWS_AS(render_report("t", {run}), Error);
}

TEST_CASE("the report is written whole or not at all") {
  const auto path = std::filesystem::temp_directory_path() / fmt::format("vitrine_report_{}.html", getpid());
  write_report(path.string(), "t", {sample_run("x")});
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  CHECK(text.str() == render_report("t", {sample_run("x")}));
  std::filesystem::remove(path);
  CHECK_THROWS_WITH_AS(write_report("/nonexistent/folder/r.html", "t", {sample_run("x")}),
                       doctest::Contains("/nonexistent/folder"), Error);
}
