// A lesson that prints the tables of its page.
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

#include "tests/data.h"
#include "tests/examples/printed.h"
#include "tests/folder.h"

namespace vitrine::test {

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

/// Rows of tables: two numbers at least.
inline std::vector<std::vector<double>> rows_of(std::istream& in) {
  std::vector<std::vector<double>> rows;
  for (std::string line; std::getline(in, line);)
    if (const auto numbers = numbers_of(line); numbers.size() > 1) rows.push_back(numbers);
  return rows;
}

/// Other instruction sets round otherwise, which shows in the errors of bfloat16.
inline bool agree(const std::vector<double>& x, const std::vector<double>& y) {
  return std::equal(x.begin(), x.end(), y.begin(), y.end(), [](double a, double b) {
    return a == b ||
           std::abs(a - b) <= 0.02 * std::max(std::abs(a), std::abs(b)) + (std::abs(a) < 1e-2 ? 0 : 0.011);
  });
}

/// Checks that the page has each row of numbers that the program prints, `count` of them, and that
/// the program writes its curves.
inline void check_lesson(const std::string& program, const std::string& page, size_t count) {
  const Folder folder;
  check_full_output(program);
  std::istringstream printed(printed_by(fmt::format("{} '{}'", program, folder / "curves.csv").c_str()));
  std::ifstream document(source_directory() / page);
  const auto rows = rows_of(printed), quoted = rows_of(document);
  CHECK(rows.size() == count);
  for (const auto& row : rows)
    CHECK_MESSAGE(std::any_of(quoted.begin(), quoted.end(), [&](const auto& q) { return agree(row, q); }),
                  fmt::format("{} has no row {}", page, fmt::join(row, " ")));
  CHECK(std::filesystem::file_size(folder / "curves.csv") > 1000);
}

}  // namespace vitrine::test
