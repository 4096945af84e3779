// A page of charts of one's own: one HTML file that needs nothing but a browser.
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

/// A page with the charts below each other, each under its title, as a string. All texts of the
/// charts are escaped. The page loads nothing from elsewhere (its content policy forbids it). Its
/// charts are drawn without scripts; tooltips, legends and the choice of theme need scripts. No
/// charts, or a chart that cannot be rendered (unequal x and y, say), are an error.
std::string render_page(const std::string& title, const std::vector<Chart>& charts);

/// Writes render_page to `path`, by way of a temporary file in the same folder that is synced and
/// renamed. Readers see the old file or the new one, never a part. If any step fails, the old file
/// remains, and the error names path and cause.
void write_page(const std::string& path, const std::string& title, const std::vector<Chart>& charts);

}  // namespace vitrine::nn::report
