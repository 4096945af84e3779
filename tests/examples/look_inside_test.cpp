// The example that shows a tape: a table, a drawing, a walk backwards, an explanation, a profile.

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/examples/printed.h"
#include "tests/folder.h"

using namespace vitrine;

TEST_CASE("a look inside prints the tape, its steps backwards, why a gradient is missing, and a profile") {
  const test::Folder folder;
  // Started in one folder, it writes to the one that it is given, or to reports/look_inside, and
  // says where.
  std::filesystem::create_directory(folder / "work");
  const std::string start = fmt::format("cd '{}' && {}", folder / "work", VITRINE_LOOK_INSIDE);
  const std::string command = fmt::format("{} --out '{}'", start, folder / "named");
  test::check_full_output(command);
  const std::string printed = test::printed_by(command.c_str());
  INFO(printed);
  CHECK(std::filesystem::is_empty(folder / "work"));
  size_t at = 0;
  for (const std::string& text : std::vector<std::string>{
           "softmax              head", "12 ops, ", folder / "named/tape.dot", "it is cut by detach at op 0",
           "softmax ", "→", folder / "named/trace.json", "softmax_backward", "head "}) {
    at = printed.find(text, at);
    CHECK_MESSAGE(at != std::string::npos, text);
  }
  const std::string dot = test::bytes_of_file(folder / "named/tape.dot");
  CHECK(dot.starts_with("digraph"));
  CHECK(dot.find("query.weight") != std::string::npos);
  CHECK_FALSE(nlohmann::json::parse(std::ifstream(folder / "named/trace.json")).empty());
  test::printed_by(start.c_str());
  CHECK(std::filesystem::exists(folder / "work/reports/look_inside/tape.dot"));
}
