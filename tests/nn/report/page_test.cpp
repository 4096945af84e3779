// Pages with charts of your own.
#include "nn/report/page.h"

#include <doctest/doctest.h>

#include <string>

#include "core/error.h"
#include "nn/report/charts/frame.h"
#include "optim/schedule.h"
#include "tests/data.h"
#include "tests/folder.h"

using namespace vitrine;
using namespace vitrine::nn::report;

namespace {

bool has(const std::string& page, const std::string& what) { return page.find(what) != page.npos; }

LineChart two_lines() {
  return {.title = "a < b", .lines = {{{"first", {1, 2}, {3, 4}}}, {{"second", {1, 2}, {4, 5}}}}};
}

}  // namespace

TEST_CASE("a page of a line chart that a program draws") {
  const test::Folder folder;
  const std::string path = folder / "schedule.html";
  Series rate{"warmup and cosine", {}, {}};
  for (int step = 0; step <= 500; ++step) rate.add(step, optim::warmup_cosine(1e-3, 100, 500)(step));
  LineChart chart{.title = "Learning rate", .x = {"step"}, .y = {"learning rate"}, .lines = {{rate}}};
  write_page(path, "Schedules", {chart});
  const std::string page = test::bytes_of_file(path);
  CHECK((page == render_page("Schedules", {chart})));
  CHECK(has(page, "<title>Schedules</title>"));
  CHECK(has(page, "<h3>Learning rate</h3>"));
  CHECK(has(page, "data-name=\"warmup and cosine\""));
}

TEST_CASE("a page shows its charts in order and whole, and escapes their texts") {
  const Histogram histogram{
      .title = "sizes", .edges = {0, 1, 2}, .groups = {{.name = "g", .heights = {3, 1}}}};
  const HeatTable table{.title = "losses", .rows = {"r"}, .columns = {"c"}, .values = {0.625}};
  const std::string page = render_page("mine & yours", {two_lines(), histogram, table});
  CHECK(has(page, "<h1>mine &amp; yours</h1></div>"));  // no subtitle
  CHECK(has(page, "<h3>a &lt; b</h3>"));
  CHECK_FALSE(has(page, "a < b"));
  CHECK(page.find("<h3>a &lt; b</h3>") < page.find("<h3>sizes</h3>"));
  CHECK(page.find("<h3>sizes</h3>") < page.find("<caption>losses</caption>"));
  CHECK(has(page, ">0.625</td>"));
  CHECK_FALSE(has(page, "<h3></h3>"));
  CHECK(has(page, "default-src 'none'"));
  // The script reads the list of runs, which is empty
  CHECK(has(page, "id=\"data\">[]</script>"));
  CHECK(page.ends_with("</script>\n</body></html>\n"));
}

TEST_CASE("style sheet and script are in the page as their files have them") {
  const std::string page = render_page("t", {two_lines()});
  const auto file = [](const char* name) {
    return test::bytes_of_file((test::source_directory() / "nn/report" / name).string());
  };
  CHECK(has(page, "<style>" + file("report.css") + "</style>"));
  CHECK(has(page, "<script>\n" + file("report.js") + file("maps.js") + file("tools.js") + file("start.js") +
                      "</script>"));
}

TEST_CASE("lines and groups without a colour get the palette's, by their place") {
  LineChart chart = two_lines();
  chart.lines[0].color = {"#102030", "#a0b0c0"};
  std::string html = render_line_chart(chart);
  CHECK(has(html, "--l:#102030;--d:#a0b0c0"));
  CHECK(has(html, color_style(categorical_color(1))));
  CHECK_FALSE(has(html, color_style(categorical_color(0))));
  html = render_histogram(
      {.edges = {0, 1}, .groups = {{.name = "a", .heights = {1}}, {.name = "b", .heights = {2}}}});
  CHECK(has(html, color_style(categorical_color(0))));
  CHECK(has(html, color_style(categorical_color(1))));
}

TEST_CASE("a page without charts, a colour that is none and a chart that cannot be rendered are errors") {
  CHECK_THROWS_WITH_AS(render_page("t", {}), doctest::Contains("no charts"), Error);
  for (const char* color : {"red", "#12345", "#12345g", "\"#1234", ""}) {
    LineChart chart = two_lines();
    chart.lines[0].color = {color, "#000000"};
    CHECK_THROWS_WITH_AS(render_page("t", {chart}), doctest::Contains("#rrggbb"), Error);
  }
  LineChart unequal = two_lines();
  unequal.lines[1].series.y.pop_back();
  CHECK_THROWS_WITH_AS(render_page("t", {unequal}), doctest::Contains("'second' has 2 x and 1 y"), Error);
  CHECK_THROWS_WITH_AS(write_page("/nonexistent/folder/p.html", "t", {two_lines()}),
                       doctest::Contains("/nonexistent/folder"), Error);
}

TEST_CASE("a page of sections has their paragraphs, captions and tables, escaped") {
  const TextTable table{.title = "t < u", .columns = {"n", "α"}, .rows = {{"1", "a & b"}, {"2", "3"}}};
  Page page{.title = "Lab", .subtitle = "of a test"};
  page.sections = {{.title = "One", .paragraphs = {{"Claim", "x < y"}}, .figures = {{table, "so & so"}}},
                   {.title = "Two", .figures = {{two_lines()}}}};
  const std::string html = render_page(page);
  CHECK(has(html, "<p class=\"subtitle\">of a test</p>"));
  CHECK(has(html, "<p class=\"said\"><b>Claim.</b> x &lt; y</p>"));
  CHECK(has(html, "<h3>t &lt; u</h3><p class=\"why\">so &amp; so</p>"));
  CHECK(has(html, "<tr><td>1</td><td>a &amp; b</td></tr>"));
  CHECK(html.find("<h2>One</h2>") < html.find("<h2>Two</h2>"));
  page.sections[0].figures[0].chart = TextTable{.title = "t", .columns = {"n"}, .rows = {{"1", "2"}}};
  CHECK_THROWS_WITH_AS(render_page(page),
                       "render_page: a row of the table t has 2 cells, wanted 1, one per column", Error);
  CHECK_THROWS_AS(render_page(Page{.title = "Lab", .sections = {{.title = "no figures"}}}), Error);
}
