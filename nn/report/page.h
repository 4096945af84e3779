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

namespace vitrine::nn::report {

/// Any chart of nn/report/charts/chart.h.
using Chart = std::variant<LineChart, Histogram, HeatTable>;

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
