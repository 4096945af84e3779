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
  run.words = {.item = "token", .loss_unit = "nats per token", .classes = 65, .writes_text = true};
  run.metrics = {{"perplexity", false, "{:.4g}", {"perplexity", {3}, {8.373}}}};
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
  const double million = 1 << 20;  // its 20th root, the margin, is 2
  const Axis axis{"y", AxisScale::log};
  CHECK(settle(axis, {1, million}, 0.05).low == doctest::Approx(0.5));
  CHECK(settle(axis, {1, million}, 0.05).high == doctest::Approx(2 * million));
  CHECK(settle({"y", AxisScale::log, 1, million}, {3, 4}, 0.05).low == 1);
  CHECK(settle({"y", AxisScale::log, 1, million}, {3, 4}, 0.05).high == million);
  CHECK(settle({"y", AxisScale::log, 1}, {3, million}, 0.05).low == 1);
  CHECK(settle(axis, {8, 8}, 0.05).low == 4);
  CHECK(settle(axis, {8, 8}, 0.05).high == 16);
}

TEST_CASE("more steps than pixels are a band of their range, under the line of their mean") {
  RunRecord run = sample_run("standard");
  const auto find = [&](const std::string& css, const std::string& name) {
    const std::string page = run_section(run, 0, shared_ranges({run}));
    const size_t at = page.find(fmt::format(R"(class="{}" style="{}" data-series="0" data-name="{}")", css,
                                            color_style(categorical_color(2)), name));
    return at == page.npos ? -1 : static_cast<int64_t>(at);
  };
  for (int i = 0; i < 500; ++i) run.speed.add(i, i % 2 == 0 ? 900 : 1100);
  CHECK(find("line faint", "tokens per second, single") > 0);
  CHECK(find("band", "tokens per second, single") < 0);
  for (int i = 500; i < 5000; ++i) run.speed.add(i, i % 2 == 0 ? 900 : 1100);
  CHECK(find("line faint", "tokens per second, single") < 0);
  CHECK(find("band", "tokens per second, single") > 0);
  CHECK(find("band", "tokens per second, single") < find("line solid", "tokens per second"));
}

TEST_CASE("a band is the lowest and the highest value of each piece, with a gap where a piece has none") {
  const Series series{"s", {0, 1, 2, 3, 4, 5, 6, 7}, {4, 1, NAN, NAN, 3, NAN, 0, -1}};
  const auto band = range_band(series, 4, AxisScale::linear);
  REQUIRE(band.size() == 4);
  CHECK(band[0].x == 0.5);
  CHECK(band[0].low == 1);
  CHECK(band[0].high == 4);
  CHECK(std::isnan(band[1].low));
  CHECK(band[2].low == 3);
  CHECK(band[2].high == 3);
  CHECK(band[3].low == -1);
  // A log axis, which cannot show 0 and −1
  CHECK(std::isnan(range_band(series, 4, AxisScale::log)[3].high));
  LineChart chart{.lines = {{series, {}, LineStyle::faint}}, .max_points = 4};
  chart.lines[0].series.y = {4, 1, 2, 3, 4, 5, 0, -1};
  CHECK(render_line_chart(chart).find("class=\"band\"") != std::string::npos);
  chart.lines[0].style = LineStyle::solid;
  CHECK(render_line_chart(chart).find("class=\"band\"") == std::string::npos);
}

TEST_CASE("axes of layers and steps have ticks at whole numbers alone") {
  CHECK(linear_ticks(1, 2, 8, 1) == std::vector<double>{1, 2});
  CHECK(linear_ticks(1, 2, 8).size() > 2);
  LineChart chart{.x = {.label = "layer", .whole = true}, .lines = {{{"a", {1, 2}, {10, 20}}}}};
  const std::string html = render_line_chart(chart);
  CHECK(html.find(">1<") != html.npos);
  CHECK(html.find(">2<") != html.npos);
  CHECK(html.find(">1.2<") == html.npos);
}

TEST_CASE("the report has every figure") {
  RunRecord run = sample_run("standard");
  run.learning_rate = {"", {1, 2, 3}, {0, 1e-3, 5e-4}};
  run.speed = {"", {1, 2, 3}, {900, 1000, 1100}};
  run.grad_norm_by_layer = {{"first layer", {1, 2}, {0.5, 0.25}}};
  run.grad_norm_by_path = {
      {"seventh", {"Q", {1, 2}, {1e-2, 2e-2}}, {"K", {1, 2}, {3e-2, 1e-2}}, {"V", {1, 2}, {0.5, 1}}}};
  run.heads[0].share_below_1e3 = 0.625;
  run.heads[0].share_below_1e7 = 0.375;
  run.heads[0].grad_norm_q = 0.021, run.heads[0].grad_norm_k = 0.022, run.heads[0].grad_norm_v = 0.023;
  const std::string page = render_report("t", {run});
  // The part of the page between a heading and the next.
  const auto figure = [&](const std::string& heading) {
    const size_t begin = page.find("<h3>" + heading + "<");
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
  has("perplexity", "data-name=\"perplexity\"");
  has("Learning rate", "data-name=\"learning rate\"");
  has("Speed", "data-name=\"tokens per second\"");
  has("Gradients by layer", "data-name=\"first layer\"");
  has("Gradients along queries, keys and values", "data-name=\"seventh\"", 3);
  has("Attention maps", "<canvas");
  has("Distribution of the weights", ">50.0 %<");  // below 1e-3
  has("Distribution of the weights", ">25.0 %<");  // below 1e-7
  has("Entropy of each head", ">1.50<");
  has("Size of the weights&#39; Jacobian", ">0.250<");
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
  for (size_t i = 0; i < 4; ++i) runs[i].seed = i % 2 == 0 ? "1" : "2";
  const std::string page = comparison_section(runs);
  CHECK(page.find("Means over seeds") != std::string::npos);
  CHECK(page.find("<td>2.1000 [2.0000, 2.2000]</td><td>1.7500 [1.7000, 1.8000]</td>") != std::string::npos);
  CHECK(page.find("<td>–</td><td>−0.3500 [−0.4000, −0.3000]</td>") != std::string::npos);
  CHECK(page.find("<td>–</td><td>lower</td>") != std::string::npos);
  // In the legends of two loss charts, perplexity and weights; above the means; and at 0 of the
  // difference.
  size_t entries = 0;
  for (size_t at = 0; (at = page.find(">standard<", at)) != std::string::npos; ++at) ++entries;
  CHECK(entries == 6);
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

TEST_CASE("texts are shaded by their weights, and examples and confusions are tables") {
  RunRecord run;
  run.name = "x";
  CHECK(render_report("t", {run}).find("Attention over words") == std::string::npos);
  run.texts = {{"first <1>", {"a", "<b>"}, {0.25f, 0.5f}, 0.6}, {"", {"c"}, {0}}};
  run.confusion = {{"yes", "no"}, {7, 1, 2, 90}};
  run.examples = {"Answers", {"question"}, {{"<why>"}}};
  const std::string page = render_report("t", {run});
  for (const char* part : {"<span class=\"s6\" data-tip=\"first &lt;1&gt;\n0.600\">first &lt;1&gt;</span>",
                           "<span class=\"s3\" data-tip=\"a\n0.250\">a</span>",
                           "<span class=\"s6\" data-tip=\"&lt;b&gt;\n0.500\">&lt;b&gt;</span>",
                           "<span class=\"s0\" data-tip=\"c\n0\">c</span>", "true no, chosen yes\n2\"",
                           "<h3>Answers</h3>", "<td>&lt;why&gt;</td>"})
    CHECK_MESSAGE(page.find(part) != std::string::npos, part);
  run.texts[0].weights.pop_back();
  CHECK_THROWS_WITH_AS(render_report("t", {run}), doctest::Contains("1 weights for 2 words"), Error);
  run.texts.clear();
  run.tables = {{"Load", "Tokens <e>", "layer", "expert", {"1", "2"}, {"a", "b"}, {1, 2, 3, 4}},
                {"Sound", "", "band", "frame", {"low"}, {"0.01 s"}, {7}, true}};
  const std::string with_tables = render_report("t", {run});
  for (const char* part : {"<h3>Load</h3>", "Tokens &lt;e&gt;", "layer 2, expert a\n3.00\">3.00</td>",
                           "<h3>Sound</h3>", "<table class=\"heat pixels square\" style=\"--rows: 1\">",
                           "data-tip=\"band low, frame 0.01 s\n7.00\"></td>"})
    CHECK_MESSAGE(with_tables.find(part) != std::string::npos, part);
  run.tables[0].values.pop_back();
  CHECK_THROWS_WITH_AS(render_report("t", {run}), doctest::Contains("3 values for 2 rows"), Error);
  run.tables.clear();
  run.confusion.counts.pop_back();
  CHECK_THROWS_AS(render_report("t", {run}), Error);
  run.confusion.counts.push_back(0), run.examples.rows[0].push_back("because");
  CHECK_THROWS_WITH_AS(render_report("t", {run}), doctest::Contains("has 2 cells, wanted 1"), Error);
}

TEST_CASE("the report is written whole or not at all") {
  const test::Folder folder;
  write_report(folder / "report.html", "t", {sample_run("x")});
  CHECK((test::bytes_of_file(folder / "report.html") == render_report("t", {sample_run("x")})));
  CHECK_THROWS_WITH_AS(write_report("/nonexistent/folder/r.html", "t", {sample_run("x")}),
                       doctest::Contains("/nonexistent/folder"), Error);
}

TEST_CASE("the report of an image classifier speaks of no tokens, text or attention") {
  RunRecord run;
  run.name = "digits";
  run.words = {
      .item = "image", .loss_unit = "nats", .loss_meaning = "The surprise at a <label>.", .classes = 10};
  run.train_loss = {"training", {1, 2, 3}, {2.3, 1, 0.5}};
  run.validation_loss = {"validation", {3}, {0.75}};
  run.speed = {"", {1, 2, 3}, {900, 1000, 1100}};
  run.metrics = {{"accuracy", true, "{:.3f}", {"accuracy", {3}, {0.9375}}}};
  for (const std::string& page : {render_report("t", {run}), render_report("t", {run, run})}) {
    const std::string text = page.substr(page.find("<body>"), page.find("id=\"data\"") - page.find("<body>"));
    for (const char* word : {"token", "perplexity", "text", "ttention", "Sample", "queries", "No "})
      CHECK_MESSAGE(text.find(word) == text.npos, word);
    for (const char* word : {"images per second", "loss, nats<", "surprise at a &lt;label&gt;",
                             "ln 10 = 2.30", "<h3>accuracy</h3>", "0.938"})
      CHECK_MESSAGE(text.find(word) != text.npos, word);
  }
}

TEST_CASE("the best of each metric is marked, whichever way is better") {
  std::vector<RunRecord> runs = {sample_run("a"), sample_run("b")};
  for (RunRecord& run : runs) run.metrics.push_back({"accuracy", true, "{:.3f}", {"accuracy", {3}, {0.5}}});
  runs[0].metrics[0].values.y = {8.5};
  runs[1].metrics[0].values.y = {9.5};
  runs[1].metrics[1].values.y = {0.625};
  const std::string table = totals_card(runs);
  CHECK(table.find(R"(>perplexity</th><td class="best">8.5</td><td>9.5</td>)") != table.npos);
  CHECK(table.find(R"(>accuracy</th><td>0.500</td><td class="best">0.625</td>)") != table.npos);
}

TEST_CASE("the difference to the first method is to its run with the same seed") {
  std::vector<RunRecord> runs;
  for (const auto& [method, seed, loss] : {std::tuple{"standard", "1", 2.0},
                                           {"standard", "2", 3.0},
                                           {"laser", "1", 1.5},
                                           {"laser", "2", 2.75}}) {
    runs.push_back(sample_run(fmt::format("{} {}", method, seed)));
    runs.back().method = method, runs.back().seed = seed;
    runs.back().train_loss = {"", {1, 2}, {loss, loss}};
    runs.back().validation_loss = {"", {2}, {loss}};
  }
  CHECK(&reference_of(runs, runs[3]) == &runs[1]);
  const std::string html = difference_card(runs);
  CHECK(html.find("Difference to standard") != html.npos);
  // From −0.5 to 0 with the margin: the drawn values and the mark at 0.
  CHECK(html.find("data-y=\"-0.525 ") != html.npos);
  for (const char* name : {"standard 2, training", "laser 1, training", "laser 2, validation"})
    CHECK_MESSAGE((html.find(fmt::format("data-name=\"{}\"", name)) != html.npos) == (name[0] == 'l'), name);
}

TEST_CASE("gradients by depth are a line a run, at the first step and over the second half") {
  RunRecord pre = sample_run("pre"), post = sample_run("post");
  for (const double norm : {1.0, 2.0, 4.0})
    pre.grad_norm_by_layer.push_back({"", {1, 11, 21, 31}, {norm, NAN, norm * 4, norm * 16}});
  post.grad_norm_by_layer = {{"", {1}, {0.5}}};
  const std::string html = depth_card({pre, post});
  size_t lines = 0;
  for (size_t at = 0; (at = html.find("data-name=\"pre\"", at)) != html.npos; ++at) ++lines;
  CHECK(lines == 2);
  CHECK(html.find("at the first step") != html.npos);
  // Both panels have the same range: from 0.5 to 4·√(4·16) = 32, with a margin on each side.
  const auto range = [&](size_t at) { return html.substr(at, html.find(" log", at) - at); };
  const std::string first = range(html.find("data-y=")), last = range(html.rfind("data-y="));
  CHECK(first == last);
  CHECK(std::stod(first.substr(8)) == doctest::Approx(0.5 / std::pow(64, 0.05)));
  CHECK(std::stod(first.substr(first.find(' '))) == doctest::Approx(32 * std::pow(64, 0.05)));
  CHECK(depth_card({post}).empty());
}

TEST_CASE("attention maps of two runs are side by side where two have them") {
  RunRecord without = sample_run("no maps");
  without.maps.clear();
  RunRecord seed = sample_run("a, seed 2");
  seed.method = "a";
  const std::string html = map_pair({sample_run("a"), without, seed, sample_run("b")});
  // The left map is of the first run, the right one of the first run with another method.
  CHECK(html.find(
            R"(left <select class="map-run"><option value="0" selected>a</option><option value="2">a, s)") !=
        html.npos);
  CHECK(html.find(R"(<option value="2">a, seed 2</option><option value="3" selected>b</option>)") !=
        html.npos);
  CHECK(map_pair({sample_run("a"), without}).empty());
}
