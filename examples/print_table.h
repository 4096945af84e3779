// Prints a table of a page.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "examples/command_line.h"
#include "nn/report/page.h"

namespace vitrine::examples {

/// Characters of a UTF-8 text.
inline size_t width_of(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

/// Prints the columns aligned to the right.
inline void print_table(const nn::report::TextTable& table) {
  std::vector<std::vector<std::string>> lines = {table.columns};
  lines.insert(lines.end(), table.rows.begin(), table.rows.end());
  std::vector<size_t> widths(table.columns.size());
  for (const auto& line : lines)
    for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], width_of(line[i]));
  std::string text = table.title + "\n\n";
  for (const auto& line : lines) {
    for (size_t i = 0; i < line.size(); ++i)
      text += std::string(4 + widths[i] - width_of(line[i]), ' ') + line[i];
    text += '\n';
  }
  say(stdout, "{}\n", text);
}

}  // namespace vitrine::examples
