// What the documents quote is in the files that they name, paths and links exist, `make` has the
// targets, and the tables of attention have all parts.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <vector>

#include "nn/attention/part.h"
#include "tests/data.h"

namespace {

namespace fs = std::filesystem;

std::string trimmed(const std::string& line) {
  const size_t begin = line.find_first_not_of(" \t"), end = line.find_last_not_of(" \t");
  return begin == std::string::npos ? "" : line.substr(begin, end - begin + 1);
}

/// Lines without indentation and without the marks of a comment, as code is quoted; blank ones left
/// out.
std::vector<std::string> lines_of(const fs::path& path) {
  std::ifstream in(path);
  REQUIRE_MESSAGE(in.good(), path.string());
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    line = trimmed(line);
    if (line.starts_with("//   ")) line = trimmed(line.substr(2));
    if (!line.empty()) lines.push_back(line);
  }
  return lines;
}

struct Quote {
  int line;
  std::vector<std::string> lines;
};

/// True where the pieces between lines of "…" are in the file, in order.
bool contains(const std::vector<std::string>& file, const std::vector<std::string>& quoted) {
  auto at = file.begin();
  for (auto piece = quoted.begin(); piece != quoted.end();) {
    const auto end = std::find(piece, quoted.end(), "…");
    at = std::search(at, file.end(), piece, end);
    if (at == file.end()) return false;
    piece = end == quoted.end() ? end : end + 1;
  }
  return true;
}

struct Document {
  std::vector<Quote> quotes;
  std::vector<std::string> paths, targets;
  std::vector<std::string> links;  ///< to other files, as they are written
};

Document read(const fs::path& path) {
  static const std::regex quoted_path("`<?(?:vitrine/)?([A-Za-z0-9_./-]+)>?`"), target("make ([a-z]+)"),
      link(R"(\]\(([^)#:]+)(#[^)]*)?\))");
  Document document;
  std::ifstream in(path);
  REQUIRE_MESSAGE(in.good(), path.string());
  bool inside = false, code = false;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.starts_with("```")) {
      inside = !inside;
      if (inside) code = line == "```cpp" || line == "```cmake";
      if (inside && code) document.quotes.push_back({number, {}});
    } else if (inside) {
      if (code && !trimmed(line).empty()) document.quotes.back().lines.push_back(trimmed(line));
    } else {
      for (std::sregex_iterator i(line.begin(), line.end(), quoted_path), end; i != end; ++i)
        if ((*i)[1].str().find('/') != std::string::npos) document.paths.push_back((*i)[1]);
      for (std::sregex_iterator i(line.begin(), line.end(), link), end; i != end; ++i)
        if (!line.starts_with("    ")) document.links.push_back((*i)[1]);
      for (std::sregex_iterator i(line.begin(), line.end(), target), end; i != end; ++i)
        if (line.starts_with("    make") || line.find("`make") != std::string::npos)
          document.targets.push_back((*i)[1]);
    }
  }
  return document;
}

}  // namespace

TEST_CASE("documents quote code as it is, and name files, links and make targets that exist") {
  const fs::path root = vitrine::test::source_directory();
  const auto makefile = lines_of(root / "Makefile");
  std::vector<std::string> names = {"README.md", "CONTRIBUTING.md", "CHANGELOG.md"};
  for (const fs::directory_entry& entry : fs::directory_iterator(root / "docs"))
    if (entry.path().extension() == ".md") names.push_back("docs/" + entry.path().filename().string());
  for (const std::string& name : names) {
    const Document document = read(root / name);
    for (const std::string& path : document.paths) {
      const auto made_by_a_run = {"build", "reports/", "runs/", "search/", "bench/results/proofs/"};
      if (std::any_of(made_by_a_run.begin(), made_by_a_run.end(),
                      [&](const char* made) { return path.starts_with(made); }))
        continue;
      const bool inside = !path.starts_with("..") && !path.starts_with("/");
      CHECK_MESSAGE(inside, fmt::format("{} names {}, which is outside of the sources", name, path));
      CHECK_MESSAGE(fs::exists(root / path), fmt::format("{} names {}, which is not there", name, path));
    }
    for (const std::string& link : document.links)
      CHECK_MESSAGE(fs::exists((root / name).parent_path() / link),
                    fmt::format("{} has a link to {}, which is not there", name, link));
    for (const Quote& quote : document.quotes) {
      const bool found = std::any_of(document.paths.begin(), document.paths.end(), [&](const std::string& p) {
        return fs::is_regular_file(root / p) && contains(lines_of(root / p), quote.lines);
      });
      CHECK_MESSAGE(found,
                    fmt::format("{}:{}: the code is in no file that the document names", name, quote.line));
    }
    for (const std::string& target : document.targets)
      CHECK_MESSAGE(std::any_of(makefile.begin(), makefile.end(),
                                [&](const std::string& l) { return l.starts_with(target + ":"); }),
                    fmt::format("{} says make {}, which the Makefile does not have", name, target));
  }
  CHECK(names.size() >= 12);
  CHECK(read(root / "README.md").quotes.size() >= 2);
  CHECK(read(root / "CONTRIBUTING.md").quotes.size() >= 6);
}

TEST_CASE("the README and the page on attention name each part of the library") {
  for (const char* name : {"README.md", "docs/attention.md"}) {
    std::string text;
    for (const std::string& line : lines_of(vitrine::test::source_directory() / name)) text += line + "\n";
    for (const vitrine::nn::AttentionPartRow* row : vitrine::nn::attention_part_table(false))
      CHECK_MESSAGE(std::regex_search(text, std::regex("`" + row->name + "[`=]")),
                    fmt::format("{} does not name the part {}", name, row->name));
  }
}
