// A lab that prints tables and writes a page.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "core/error.h"
#include "tests/data.h"
#include "tests/examples/printed.h"
#include "tests/folder.h"

namespace vitrine::test {

inline bool near(double x, double want, double tolerance) { return std::abs(x - want) <= tolerance; }

/// The words of a line that are numbers (inf among them), or nothing where the line does not begin
/// with one.
inline std::vector<double> numbers_of(const std::string& line) {
  std::vector<double> numbers;
  std::istringstream in(line);
  for (std::string word; in >> word;) {
    char* end = nullptr;
    const double number = std::strtod(word.c_str(), &end);
    if (*end == '\0')
      numbers.push_back(number);
    else if (numbers.empty())
      return {};
  }
  return numbers;
}

/// The rows of indented tables: two numbers at least.
inline std::vector<std::vector<double>> rows_of(std::istream& in) {
  std::vector<std::vector<double>> rows;
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("    ", 0) != 0) continue;
    if (const auto numbers = numbers_of(line); numbers.size() > 1) rows.push_back(numbers);
  }
  return rows;
}

/// Other instruction sets round otherwise, which shows in the errors of bfloat16.
inline bool agree(const std::vector<double>& x, const std::vector<double>& y) {
  return std::equal(x.begin(), x.end(), y.begin(), y.end(), [](double a, double b) {
    return a == b ||
           std::abs(a - b) <= 0.02 * std::max(std::abs(a), std::abs(b)) + (std::abs(a) < 1e-2 ? 0 : 0.011);
  });
}

/// What a lab printed, and its page.
struct LabRun {
  std::string printed, page;

  /// The rows of the table with this title: the numbers of each, after the text that a row may
  /// begin with.
  std::vector<std::vector<double>> table(const std::string& title) const {
    const size_t at = printed.find(title + "\n\n");
    check(at != printed.npos, "there is no table `{}`", title);
    std::istringstream in(printed.substr(at + title.size() + 2));
    std::string line;
    std::getline(in, line);  // the columns
    std::vector<std::vector<double>> rows;
    while (std::getline(in, line) && !line.empty()) {
      rows.push_back(numbers_of(line));
      if (!rows.back().empty()) continue;
      std::istringstream words(line);
      for (std::string word; words >> word;) {
        char* end = nullptr;
        const double number = std::strtod(word.c_str(), &end);
        if (*end == '\0') rows.back().push_back(number);
      }
    }
    return rows;
  }
  /// The last number of the row that begins with `name`.
  double value(const std::string& name) const {
    const size_t at = printed.find(" " + name + " ");
    check(at != printed.npos, "there is no row `{}`", name);
    std::istringstream in(printed.substr(at + name.size() + 1));
    double number = NAN;
    in >> number;
    return number;
  }
};

/// Runs the lab. Checks that it prints each row of numbers that `document` quotes, `count` of them,
/// that it writes its curves, and that it reports output that cannot be written.
inline LabRun run_lab(const std::string& program, const std::string& document, size_t count) {
  const Folder folder;
  check_full_output(program);
  LabRun run;
  run.printed =
      printed_by(fmt::format("{} '{}' '{}'", program, folder / "page.html", folder / "curves.csv").c_str());
  run.page = bytes_of_file(folder / "page.html");
  CHECK(std::filesystem::file_size(folder / "curves.csv") > 1000);
  std::istringstream printed(run.printed);
  std::ifstream quotes(source_directory() / document);
  const auto rows = rows_of(printed), quoted = rows_of(quotes);
  CHECK(quoted.size() == count);
  for (const auto& q : quoted)
    CHECK_MESSAGE(std::any_of(rows.begin(), rows.end(), [&](const auto& row) { return agree(row, q); }),
                  fmt::format("the lab prints no row {} of {}", fmt::join(q, " "), document));
  for (const char* word : {"Claim", "Seen", "Verdict"})
    CHECK(run.page.find(fmt::format("<b>{}.</b>", word)) != run.page.npos);
  return run;
}

}  // namespace vitrine::test
