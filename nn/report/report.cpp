#include "nn/report/report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/files/file.h"
#include "nn/report/html.h"
#include "nn/report/parts.h"

namespace vitrine::nn::report {
namespace {

/// JSON for a <script> element: no "<" is left that could close the element or open a comment.
std::string script_json(const nlohmann::json& data) {
  const std::string text = data.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  std::string out;
  out.reserve(text.size());
  for (char c : text) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

std::string page_head(const std::string& title, const std::string& names) {
  // The policy forbids the page to load anything at all: it shows the same without a network, and tells
  // nobody.
  return R"(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>)" +
         escape_html(title + ": " + names) + "</title>\n<style>" + report_style() +
         "</style></head>\n<body>\n";
}

std::string page_header(const std::string& title, const std::string& names) {
  return fmt::format(
      "<header><div><h1>{}</h1><p class=\"subtitle\">{}</p></div>"
      "<button type=\"button\" class=\"theme\" aria-label=\"Colour theme\">Theme: auto</button></header>\n",
      escape_html(title), escape_html(names));
}

std::string run_tabs(const std::vector<RunReport>& runs) {
  std::string html = R"(<h2>Each run</h2><div class="tabs" role="tablist">)";
  for (size_t i = 0; i < runs.size(); ++i) {
    html += fmt::format(
        R"(<button type="button" role="tab" aria-selected="{}" aria-controls="run-{}">{}</button>)",
        i == 0 ? "true" : "false", i, escape_html(runs[i].name));
  }
  return html + "</div>\n";
}

std::string run_panels(const std::vector<RunReport>& runs) {
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

std::string render_report(const std::string& title, const std::vector<RunReport>& runs) {
  check(!runs.empty(), "render_report: there are no runs");
  nlohmann::json data = nlohmann::json::array();
  std::string names;
  for (const RunReport& run : runs) {
    data.push_back(map_data(run));
    names += (names.empty() ? "" : " · ") + run.name;
  }

  std::string html = page_head(title, names) + page_header(title, names);
  if (runs.size() > 1) html += comparison_section(runs) + run_tabs(runs);
  html += run_panels(runs);
  html +=
      "<footer>Made by Vitrine. Colours: Okabe and Ito's palette for runs, viridis for layers, one hue of "
      "even "
      "lightness steps for heat maps; all can be told apart without full colour vision. Point at a chart for "
      "values; choose an entry of a legend to hide its line.</footer>\n";
  html += R"(<script type="application/json" id="data">)" + script_json(data) + "</script>\n";
  return html + "<script>" + report_script() + "</script>\n</body></html>\n";
}

void write_report(const std::string& path, const std::string& title, const std::vector<RunReport>& runs) {
  const std::string html = render_report(title, runs);
  const std::string_view parts[] = {html};
  write_file("write_report", path, parts);
}

}  // namespace vitrine::nn::report
