// A table of texts, for pages and for the record of a run.
#pragma once

#include <string>
#include <vector>

namespace vitrine::nn::report {

/// A table of texts; each row has as many cells as there are columns.
struct TextTable {
  std::string title = {};
  std::vector<std::string> columns = {};
  std::vector<std::vector<std::string>> rows = {};
};

}  // namespace vitrine::nn::report
