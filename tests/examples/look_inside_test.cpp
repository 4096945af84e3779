// The example that shows a tape: a table, a drawing, a walk backwards, an explanation, a profile.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tests/examples/printed.h"

TEST_CASE("a look inside prints the tape, its steps backwards, why a gradient is missing, and a profile") {
  const auto folder =
      std::filesystem::temp_directory_path() / fmt::format("vitrine_look_inside_{}", getpid());
  std::filesystem::create_directory(folder);
  const std::string printed =
      vitrine::test::printed_by(fmt::format("cd '{}' && {}", folder.string(), VITRINE_LOOK_INSIDE).c_str());
  INFO(printed);
  size_t at = 0;
  for (const char* text : {"softmax              head", "12 ops, ", "it is cut by detach at op 0", "softmax ",
                           "→", "softmax_backward", "head "}) {
    at = printed.find(text, at);
    CHECK_MESSAGE(at != std::string::npos, text);
  }
  std::stringstream dot;
  dot << std::ifstream(folder / "tape.dot").rdbuf();
  CHECK(dot.str().starts_with("digraph"));
  CHECK(dot.str().find("query.weight") != std::string::npos);
  CHECK_FALSE(nlohmann::json::parse(std::ifstream(folder / "trace.json")).empty());
  std::filesystem::remove_all(folder);
}
