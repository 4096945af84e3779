// A page with charts of your own: one HTML file that needs only a browser.
//
//   Series rate{"warmup and cosine", {}, {}};
//   for (int step = 0; step <= 500; ++step)
//     rate.add(step, optim::warmup_cosine(1e-3, 100, 500)(step));
//   LineChart chart{
//       .title = "Learning rate", .x = {"step"}, .y = {"learning rate"}, .lines = {{rate}}};
//   write_page("schedule.html", "Schedules", {chart});
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "nn/report/charts/chart.h"
#include "nn/report/text_table.h"

namespace vitrine::nn::report {

/// Any chart of nn/report/charts/chart.h, or a table.
using Chart = std::variant<LineChart, Histogram, HeatTable, TextTable>;

/// A chart with a text under its title.
struct CaptionedChart {
  Chart chart;
  std::string caption = {};
};

/// A part of a page: a heading, paragraphs that each begin with a word such as "Claim", and
/// figures.
struct Section {
  struct Paragraph {
    std::string word, text;
  };
  std::string title = {};
  std::vector<Paragraph> paragraphs = {};
  std::vector<CaptionedChart> figures = {};
};

/// A page of sections.
struct Page {
  std::string title = {}, subtitle = {};  // empty subtitle: none
  std::vector<Section> sections = {};
};

/// The HTML of the page; see render_page of charts. Errors: a page without figures; a row of a
/// table with more or fewer cells than columns.
std::string render_page(const Page& page);

/// Writes render_page to `path`; see write_page of charts.
void write_page(const std::string& path, const Page& page);

/// The HTML of a page with the charts in a column, each under its title. All texts of the charts
/// are escaped. The page loads nothing from elsewhere; its content policy forbids it. The charts
/// need no scripts; tooltips, legends and the choice of theme do. Errors: no charts; a chart that
/// cannot be rendered, for example with unequal numbers of x and y.
std::string render_page(const std::string& title, const std::vector<Chart>& charts);

/// Writes render_page to `path`, by renaming a synchronized temporary file in the same folder.
/// Readers see either the old file or the new file, never a part. If a step fails, the old file
/// remains, and the error names the path and the cause.
void write_page(const std::string& path, const std::string& title, const std::vector<Chart>& charts);

}  // namespace vitrine::nn::report
