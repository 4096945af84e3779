#include "nn/report/page.h"

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

std::string page_head(const std::string& title) {
  // The content policy forbids the page to load anything: it looks the same without a network, and
  // it sends nothing.
  return R"(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>)" +
         escape_html(title) + "</title>\n<style>" + report_style() + "</style></head>\n<body>\n";
}

std::string page_header(const std::string& title, const std::string& subtitle) {
  const std::string line =
      subtitle.empty() ? "" : fmt::format("<p class=\"subtitle\">{}</p>", escape_html(subtitle));
  return fmt::format(
      "<header><div><h1>{}</h1>{}</div>"
      "<button type=\"button\" class=\"theme\" aria-label=\"Colour theme\">Theme: auto</button></header>\n",
      escape_html(title), line);
}

/// The card of a chart.
struct ChartCard {
  std::string caption = {};  // HTML
  std::string operator()(const LineChart& chart) const {
    return card(chart.title, render_line_chart(chart), caption, "wide");
  }
  std::string operator()(const Histogram& histogram) const {
    return card(histogram.title, render_histogram(histogram), caption, "wide");
  }
  // The table shows its title as a caption.
  std::string operator()(const HeatTable& table) const {
    return card("", render_heat_table(table), caption, "wide");
  }
  std::string operator()(const TextTable& table) const {
    return card(table.title, text_table(table, "texts"), caption, "wide");
  }
};

std::string cards(const std::vector<CaptionedChart>& figures) {
  std::string html = R"(<div class="cards">)";
  for (const CaptionedChart& figure : figures)
    html += std::visit(ChartCard{escape_html(figure.caption)}, figure.chart);
  return html + "</div>\n";
}

std::string section_html(const Section& section) {
  std::string html = section.title.empty() ? "" : fmt::format("<h2>{}</h2>\n", escape_html(section.title));
  for (const Section::Paragraph& p : section.paragraphs)
    html += fmt::format("<p class=\"said\"><b>{}.</b> {}</p>\n", escape_html(p.word), escape_html(p.text));
  return html + (section.figures.empty() ? "" : cards(section.figures));
}

Page page_of(const std::string& title, const std::vector<Chart>& charts) {
  Section section;
  for (const Chart& chart : charts) section.figures.push_back({chart});
  return {.title = title, .sections = {section}};
}

}  // namespace

std::string html_page(const PageHeading& heading, const std::string& body, const nlohmann::json& runs) {
  const std::string tab = heading.subtitle.empty() ? heading.title : heading.title + ": " + heading.subtitle;
  return page_head(tab) + page_header(heading.title, heading.subtitle) + body +
         R"(<script type="application/json" id="data">)" + script_json(runs) + "</script>\n<script>\n" +
         report_script() + "</script>\n</body></html>\n";
}

std::string render_page(const Page& page) {
  std::string body;
  bool has_figures = false;
  for (const Section& section : page.sections) {
    has_figures = has_figures || !section.figures.empty();
    body += section_html(section);
  }
  check(has_figures, "render_page: there are no charts; at least one is wanted");
  body +=
      "<footer>Made by Vitrine. Point at a chart for values; choose an entry of a legend to hide its "
      "line.</footer>\n";
  return html_page({page.title, page.subtitle}, body, nlohmann::json::array());
}

std::string render_page(const std::string& title, const std::vector<Chart>& charts) {
  return render_page(page_of(title, charts));
}

void write_page(const std::string& path, const Page& page) {
  const std::string html = render_page(page);
  const std::string_view parts[] = {html};
  write_file("write_page", path, parts);
}

void write_page(const std::string& path, const std::string& title, const std::vector<Chart>& charts) {
  write_page(path, page_of(title, charts));
}

}  // namespace vitrine::nn::report
