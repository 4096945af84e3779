// Heat tables: numbers in a grid, shaded by value.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "nn/report/charts/chart.h"
#include "nn/report/charts/frame.h"
#include "nn/report/html.h"

namespace vitrine::nn::report {
namespace {

// Classes s0 … s10 of the style sheet, from the background colour to the strongest
constexpr int shades = 11;

/// 0 for the lowest value, shades − 1 for the highest.
int shade(const Scale& scale, double value) {
  const double place = std::clamp(scale.place(value), 0.0, 1.0);
  return static_cast<int>(std::lround(place * (shades - 1)));
}

std::string cell(const HeatTable& table, const Scale& scale, size_t row, size_t column) {
  const double value = table.values[row * table.columns.size() + column];
  if (std::isnan(value)) return R"(<td class="empty">–</td>)";
  const std::string text = table.format ? table.format(value) : readable_number(value, 3);
  const std::string tip = fmt::format("{} {}, {} {}\n{}", table.row_title, table.rows[row],
                                      table.column_title, table.columns[column], text);
  const double place = scale.place(value);
  const int strength = std::isnan(place) ? (value > 0 ? shades - 1 : 0) : shade(scale, value);
  return fmt::format(R"(<td class="s{}" data-tip="{}">{}</td>)", strength, escape_html(tip),
                     table.is_picture ? "" : escape_html(text));
}

}  // namespace

std::string render_heat_table(const HeatTable& table) {
  check(table.values.size() == table.rows.size() * table.columns.size(),
        "render_heat_table: {} values for {} rows and {} columns", table.values.size(), table.rows.size(),
        table.columns.size());
  const auto range = drawable_range(table.values, table.scale);
  if (std::isnan(range.first)) return render_missing(table.title, "no values to show.");
  const Scale scale = settle({table.title, table.scale, table.low, table.high}, range, 0);

  std::string look = R"(class="heat")";
  if (table.is_picture) look = R"(class="heat pixels")";
  if (table.is_picture && table.rows.size() == table.columns.size())
    look = fmt::format(R"(class="heat pixels square" style="--rows: {}")", table.rows.size());
  std::string html =
      fmt::format(R"(<div class="scroll"><table {}><caption>{}</caption><thead><tr><th>{}</th>)", look,
                  escape_html(table.title), escape_html(table.row_title + " ╲ " + table.column_title));
  for (const std::string& column : table.columns) {
    html += fmt::format(R"(<th scope="col">{}</th>)", escape_html(column));
  }
  html += "</tr></thead><tbody>";
  for (size_t row = 0; row < table.rows.size(); ++row) {
    html += fmt::format(R"(<tr><th scope="row">{}</th>)", escape_html(table.rows[row]));
    for (size_t column = 0; column < table.columns.size(); ++column) html += cell(table, scale, row, column);
    html += "</tr>";
  }
  return html + "</tbody></table></div>\n";
}

}  // namespace vitrine::nn::report
