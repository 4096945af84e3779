// Markdown tables, for a terminal and for documents.
#pragma once

#include <string>
#include <vector>

namespace vitrine::bench {

/// A table in Markdown, written to standard output row by row.
class MarkdownTable {
 public:
  struct Column {
    std::string title;
    bool left = false;  ///< aligned; else right
    int width = 0;      ///< of a cell at least; that of the title if that is wider
  };
  /// Prints the titles.
  explicit MarkdownTable(std::vector<Column> columns);
  /// As many cells as columns.
  void row(const std::vector<std::string>& cells) const;

 private:
  std::vector<Column> columns_;
};

}  // namespace vitrine::bench
