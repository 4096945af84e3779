#include "nn/report/report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/files/file.h"
#include "nn/report/html.h"
#include "nn/report/parts.h"

namespace vitrine::nn::report {
namespace {

std::string run_tabs(const std::vector<RunRecord>& runs) {
  std::string html = R"(<h2>Each run</h2><div class="tabs" role="tablist">)";
  for (size_t i = 0; i < runs.size(); ++i) {
    html += fmt::format(
        R"(<button type="button" role="tab" aria-selected="{}" aria-controls="run-{}">{}</button>)",
        i == 0 ? "true" : "false", i, escape_html(runs[i].name));
  }
  return html + "</div>\n";
}

std::string run_panels(const std::vector<RunRecord>& runs) {
  const SharedRanges ranges = shared_ranges(runs);
  std::string html;
  for (size_t i = 0; i < runs.size(); ++i) {
    const bool alone = runs.size() == 1;
    html += fmt::format(R"(<div class="run" id="run-{}"{}>)", i, alone ? "" : R"( role="tabpanel")");
    if (!alone) html += fmt::format("<h2>{}</h2>", escape_html(runs[i].name));
    html += summary_tiles(runs[i]) + run_section(runs[i], static_cast<int>(i), ranges) + "</div>\n";
  }
  return html;
}

}  // namespace

std::string render_report(const std::string& title, const std::vector<RunRecord>& runs) {
  check(!runs.empty(), "render_report: there are no runs");
  nlohmann::json data = nlohmann::json::array();
  std::string names;
  for (const RunRecord& run : runs) {
    data.push_back(map_data(run));
    names += (names.empty() ? "" : " · ") + run.name;
  }

  std::string html;
  if (runs.size() > 1) html += comparison_section(runs) + run_tabs(runs);
  html += run_panels(runs);
  html +=
      "<footer>Made by Vitrine. Colours: Okabe and Ito's palette for runs, viridis for layers, one hue of "
      "even "
      "lightness steps for heat maps; all can be told apart without full colour vision. Point at a chart for "
      "values; choose an entry of a legend to hide its line.</footer>\n";
  return html_page({title, names}, html, data);
}

void write_report(const std::string& path, const std::string& title, const std::vector<RunRecord>& runs) {
  const std::string html = render_report(title, runs);
  const std::string_view parts[] = {html};
  write_file("write_report", path, parts);
}

}  // namespace vitrine::nn::report
