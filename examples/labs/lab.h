// What every lab does with its page: the page is written, and its tables are printed.
#pragma once

#include <fmt/format.h>

#include <string>
#include <variant>
#include <vector>

#include "core/error.h"
#include "core/files/file.h"
#include "examples/command_line.h"
#include "examples/print_table.h"
#include "nn/report/page.h"

namespace vitrine::labs {

/// A lab's page, and the chart of the picture in docs/.
struct Lab {
  nn::report::Page page;
  nn::report::LineChart picture;
};

/// Writes the lines of the chart as CSV. They share their x.
inline void write_curves(const std::string& path, const nn::report::LineChart& chart) {
  std::string text = "x";
  for (const auto& line : chart.lines) text += "," + line.series.name;
  const auto& x = chart.lines.at(0).series.x;
  for (size_t i = 0; i < x.size(); ++i) {
    text += fmt::format("\n{:.6g}", x[i]);
    for (const auto& line : chart.lines) text += fmt::format(",{:.6g}", line.series.y.at(i));
  }
  text += '\n';
  const std::string_view parts[] = {text};
  write_file("write_curves", path, parts);
}

/// The main function of a lab: `NAME [PAGE [CURVES]]`. It prints the tables of the page, writes the
/// page to PAGE, and the curves of the picture in docs/ to CURVES as CSV.
inline int run(const char* name, int argc, char** argv, Lab (*make)()) {
  return examples::run_program(name, [&] {
    check(argc <= 3 && (argc < 2 || argv[1][0] != '-'), "usage: {} [PAGE.html [CURVES.csv]]", name);
    const Lab lab = make();
    for (const auto& section : lab.page.sections)
      for (const auto& figure : section.figures)
        if (const auto* table = std::get_if<nn::report::TextTable>(&figure.chart))
          examples::print_table(*table);
    if (argc > 1) nn::report::write_page(argv[1], lab.page);
    if (argc > 2) write_curves(argv[2], lab.picture);
    return 0;
  });
}

}  // namespace vitrine::labs
