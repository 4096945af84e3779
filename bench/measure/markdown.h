// Tables that a terminal shows and a document takes as they are.
#pragma once

#include <string>
#include <vector>

namespace vitrine::bench {

/// A table in Markdown, a row at a time to standard output.
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
