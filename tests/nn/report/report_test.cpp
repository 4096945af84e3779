#include "nn/report/report.h"

#include <doctest/doctest.h>

#include <cmath>
#include <tuple>

#include "core/error.h"
#include "nn/report/charts/frame.h"
#include "nn/report/parts.h"
#include "tests/folder.h"

using namespace vitrine;
using namespace vitrine::nn::report;

namespace {

RunRecord sample_run(const std::string& name) {
  RunRecord run;
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
  CHECK(page.find("<title>one &amp; two: standard · laser</title>") != std::string::npos);
  CHECK(page.find("2.125") != std::string::npos);
  CHECK(page.find("laser") != std::string::npos);
  CHECK(page.find("<script>alert(1)") == std::string::npos);
  CHECK(page.find("\xff") == std::string::npos);
  CHECK(page.find("http://") ==
        page.find("http://www.w3.org"));  // nothing is loaded; only namespaces name a host
}

TEST_CASE("a prompt stands in bold before the sample; a blank one, that none could see, is left out") {
  RunRecord run = sample_run("standard");
  run.prompt = "Once";
  run.sample = " upon";
  CHECK(render_report("t", {run}).find("<b>Once</b> upon") != std::string::npos);
  run.prompt = " \n";
  CHECK(render_report("t", {run}).find("\n upon</pre>") != std::string::npos);
}

TEST_CASE("lines that share an axis keep off its ends, and zero has no unit") {
  RunRecord run = sample_run("standard");
  run.learning_rate = {"", {1, 2, 3}, {0, 1, 2}};
  run.grad_norm_by_layer = {{"layer 0", {1, 2}, {1e-3, 1e-1}}};
  const SharedRanges ranges = shared_ranges({run});
  CHECK(ranges.learning_rate.second > 2);
  CHECK(ranges.layer_gradients.first < 1e-3);
  CHECK(ranges.layer_gradients.second > 1e-1);
  CHECK(std::isnan(ranges.path_gradients.first));
  CHECK(tick_labels({0, 20000, 40000}, AxisScale::linear) == std::vector<std::string>{"0", "20k", "40k"});
}

TEST_CASE("a log axis leaves a margin at both ends, but where an end was given") {
  const double million = 1 << 20;  // whose twentieth root, the margin, is 2
  const Axis axis{"y", AxisScale::log};
  CHECK(settle(axis, {1, million}, 0.05).low == doctest::Approx(0.5));
  CHECK(settle(axis, {1, million}, 0.05).high == doctest::Approx(2 * million));
  CHECK(settle({"y", AxisScale::log, 1, million}, {3, 4}, 0.05).low == 1);
  CHECK(settle({"y", AxisScale::log, 1, million}, {3, 4}, 0.05).high == million);
  CHECK(settle({"y", AxisScale::log, 1}, {3, million}, 0.05).low == 1);
  CHECK(settle(axis, {8, 8}, 0.05).low == 4);
  CHECK(settle(axis, {8, 8}, 0.05).high == 16);
}

TEST_CASE("fast steps are a faint band under the line of their mean") {
  RunRecord run = sample_run("standard");
  for (int i = 0; i < 5000; ++i) run.tokens_per_second.add(i, i % 2 == 0 ? 900 : 1100);
  const std::string page = run_section(run, 0, shared_ranges({run}));
  const auto line = [&](const std::string& css, const std::string& name) {
    const std::string style = color_style(categorical_color(2));
    return page.find(
        fmt::format(R"(class="line {}" style="{}" data-series="0" data-name="{}")", css, style, name));
  };
  REQUIRE(line("solid", "tokens per second") != page.npos);
  CHECK(line("faint", "tokens per second, single") < line("solid", "tokens per second"));
}

TEST_CASE("the report has every figure") {
  RunRecord run = sample_run("standard");
  run.learning_rate = {"", {1, 2, 3}, {0, 1e-3, 5e-4}};
  run.tokens_per_second = {"", {1, 2, 3}, {900, 1000, 1100}};
  run.grad_norm_by_layer = {{"first layer", {1, 2}, {0.5, 0.25}}};
  run.grad_norm_by_path = {
      {"seventh", {"Q", {1, 2}, {1e-2, 2e-2}}, {"K", {1, 2}, {3e-2, 1e-2}}, {"V", {1, 2}, {0.5, 1}}}};
  run.heads[0].share_below_1e3 = 0.625;
  run.heads[0].share_below_1e7 = 0.375;
  run.heads[0].grad_norm_q = 0.021, run.heads[0].grad_norm_k = 0.022, run.heads[0].grad_norm_v = 0.023;
  const std::string page = render_report("t", {run});
  // The part of the page from one heading to the next.
  const auto figure = [&](const std::string& heading) {
    const size_t begin = page.find(">" + heading + "<");
    REQUIRE_MESSAGE(begin != page.npos, heading);
    return page.substr(begin, page.find("<section", begin) - begin);
  };
  const auto has = [&](const char* heading, const std::string& what, size_t times = 1) {
    const std::string text = figure(heading);
    size_t count = 0;
    for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++count;
    CHECK_MESSAGE(count >= times, heading << ": " << what);
  };
  has("Loss", "data-name=\"training, smoothed\"");
  has("Loss", "data-name=\"validation\"");
  has("Learning rate", "data-name=\"learning rate\"");
  has("Speed", "data-name=\"tokens per second\"");
  has("Gradients by layer", "data-name=\"first layer\"");
  has("Gradients along queries, keys and values", "data-name=\"seventh\"", 3);
  has("Attention maps", "<canvas");
  has("Distribution of the weights", ">50.0 %<");  // below 1e-3
  has("Distribution of the weights", ">25.0 %<");  // below 1e-7
  has("Entropy of each head", ">1.50<");
  has("Size of the softmax&#39;s Jacobian", ">0.250<");
  for (const char* value : {">62<", ">38<", ">0.021<", ">0.022<", ">0.023<"})
    has("More about each head", value);
}

TEST_CASE("runs of one method share a color and an entry of the legend, and their losses have a mean") {
  std::vector<RunRecord> runs;
  for (const auto& [method, seed, loss] :
       {std::tuple{"standard", 1, 2.0}, {"standard", 2, 2.2}, {"laser", 1, 1.7}, {"laser", 2, 1.8}}) {
    runs.push_back(sample_run(fmt::format("{}, seed {}", method, seed)));
    runs.back().method = method;
    runs.back().final_validation_loss = loss;
  }
  const std::string page = comparison_section(runs);
  CHECK(page.find("Means over seeds") != std::string::npos);
  CHECK(page.find("<td>2.1000</td><td>1.7500</td>") != std::string::npos);
  CHECK(page.find("<td>0.14</td><td>0.071</td>") != std::string::npos);  // 0.2/√2 and 0.1/√2
  size_t entries = 0;  // in the legends of two loss charts and of the weights, and above the means
  for (size_t at = 0; (at = page.find(">standard<", at)) != std::string::npos; ++at) ++entries;
  CHECK(entries == 4);
  const std::string fourth = color_style(categorical_color(3));
  CHECK(page.find(fourth) == std::string::npos);
  for (RunRecord& run : runs) run.method.clear();
  CHECK(comparison_section(runs).find("Means over seeds") == std::string::npos);
  CHECK(comparison_section(runs).find(fourth) != std::string::npos);
}

TEST_CASE("the shares of small weights are counted") {
  const RunRecord run = sample_run("x");
  CHECK(run.weights.total() == 4);
  CHECK(run.weights.share_below(-3) == doctest::Approx(0.5));
  CHECK(run.weights.share_below(-7) == doctest::Approx(0.25));
}

TEST_CASE("unequal series and maps are refused") {
  RunRecord run = sample_run("x");
  run.train_loss.y.pop_back();
  CHECK_THROWS_AS(render_report("t", {run}), Error);
  run = sample_run("x");
  run.maps[0].weights.pop_back();
  CHECK_THROWS_AS(render_report("t", {run}), Error);
}

TEST_CASE("the report is written whole or not at all") {
  const test::Folder folder;
  write_report(folder / "report.html", "t", {sample_run("x")});
  CHECK((test::bytes_of_file(folder / "report.html") == render_report("t", {sample_run("x")})));
  CHECK_THROWS_WITH_AS(write_report("/nonexistent/folder/r.html", "t", {sample_run("x")}),
                       doctest::Contains("/nonexistent/folder"), Error);
}
