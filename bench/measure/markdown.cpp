#include "bench/measure/markdown.h"

#include <algorithm>
#include <cstdio>

#include "core/error.h"

namespace vitrine::bench {

MarkdownTable::MarkdownTable(std::vector<Column> columns) : columns_(std::move(columns)) {
  std::vector<std::string> titles, rules;
  for (Column& c : columns_) {
    c.width = std::max({c.width, static_cast<int>(c.title.size()), 3});
    titles.push_back(c.title);
    rules.push_back(std::string(static_cast<size_t>(c.width) - 1, '-') + (c.left ? "-" : ":"));
  }
  row(titles);
  row(rules);
}

void MarkdownTable::row(const std::vector<std::string>& cells) const {
  check(cells.size() == columns_.size(), "MarkdownTable: {} cells for {} columns", cells.size(),
        columns_.size());
  std::string line = "|";
  for (size_t i = 0; i < cells.size(); ++i)
    line += columns_[i].left ? fmt::format(" {:<{}} |", cells[i], columns_[i].width)
                             : fmt::format(" {:>{}} |", cells[i], columns_[i].width);
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

}  // namespace vitrine::bench
