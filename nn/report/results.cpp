// What a trained model does with single examples: texts shaded by attention, a confusion matrix,
// shaded tables of numbers, and a table of examples.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "nn/report/html.h"
#include "nn/report/parts.h"

namespace vitrine::nn::report {
namespace {

/// A word with one of the 11 shades of the style sheet, `share` in [0, 1].
std::string shaded(const std::string& text, double share, double weight) {
  const double strength = std::isfinite(share) ? std::clamp(share, 0.0, 1.0) : 0;
  return fmt::format(R"(<span class="s{}" data-tip="{}">{}</span> )", std::lround(10 * strength),
                     escape_html(fmt::format("{}\n{}", text, readable_number(weight, 3))), escape_html(text));
}

std::string weighted_text(const RunRecord& run, const WeightedText& text) {
  check(text.words.size() == text.weights.size(),
        "render_report: run '{}', text '{}': {} weights for {} words, wanted one per word", run.name,
        text.label, text.weights.size(), text.words.size());
  const float largest = text.weights.empty() ? 0 : std::ranges::max(text.weights);
  const double strongest = std::isnan(text.weight) ? 1 : text.weight;
  std::string html;
  if (!text.label.empty())
    html += std::isnan(text.weight) ? fmt::format("<b>{}</b> ", escape_html(text.label))
                                    : shaded(text.label, text.weight, text.weight);
  for (size_t i = 0; i < text.words.size(); ++i)
    html += shaded(text.words[i], largest > 0 ? strongest * text.weights[i] / largest : 0, text.weights[i]);
  return "<p>" + html + "</p>";
}

std::string weighted_texts_card(const RunRecord& run) {
  std::string html = R"(<div class="shaded">)";
  for (const WeightedText& text : run.texts) html += weighted_text(run, text);
  return card(
      "Attention over words", html + "</div>",
      "The words of each line are shaded by their weight, relative to the largest weight of the line. If "
      "the line itself has a weight, its beginning is shaded by it, and so are its words: words of a line "
      "that hardly counts are pale. Point at a word for its weight.",
      "wide");
}

std::string confusion_card(const RunRecord& run) {
  HeatTable table;
  table.title = "rows: the true class; columns: the class that the model chose";
  table.row_title = "true";
  table.column_title = "chosen";
  table.rows = table.columns = run.confusion.classes;
  table.values = run.confusion.counts;
  table.low = 0;
  table.format = [](double count) { return fmt::format("{:.0f}", count); };
  return card(
      "Confusion matrix", render_heat_table(table),
      "How many items of the validation data have a class and are taken for another one. All items of "
      "a perfect classifier are on the diagonal.",
      "wide");
}

std::string shaded_card(const ShadedTable& shaded) {
  const HeatTable table = {.title = shaded.is_picture ? "" : shaded.title,
                           .row_title = shaded.row_title,
                           .column_title = shaded.column_title,
                           .rows = shaded.rows,
                           .columns = shaded.columns,
                           .values = shaded.values,
                           .is_picture = shaded.is_picture};
  return card(shaded.title, render_heat_table(table), escape_html(shaded.explanation),
              shaded.columns.size() > 24 ? "wide" : "");
}

}  // namespace

std::string text_table(const TextTable& table, const std::string& css_class) {
  std::string html = fmt::format(R"(<div class="scroll"><table class="{}"><thead><tr>)", css_class);
  for (const std::string& column : table.columns)
    html += fmt::format("<th scope=\"col\">{}</th>", escape_html(column));
  html += "</tr></thead><tbody>";
  for (const auto& row : table.rows) {
    check(row.size() == table.columns.size(),
          "render_page: a row of the table {} has {} cells, wanted {}, one per column", table.title,
          row.size(), table.columns.size());
    html += "<tr>";
    for (const std::string& cell : row) html += fmt::format("<td>{}</td>", escape_html(cell));
    html += "</tr>";
  }
  return html + "</tbody></table></div>";
}

std::string result_cards(const RunRecord& run) {
  std::string html;
  if (!run.texts.empty()) html += weighted_texts_card(run);
  if (!run.confusion.classes.empty()) html += confusion_card(run);
  for (const ShadedTable& table : run.tables) html += shaded_card(table);
  if (!run.examples.rows.empty())
    html += card(run.examples.title, text_table(run.examples, "examples"), "", "wide");
  return html;
}

}  // namespace vitrine::nn::report
