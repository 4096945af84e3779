// The example that shows a tape: a table, a drawing, a walk backwards, an explanation, a profile.

#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tests/examples/printed.h"
#include "tests/folder.h"

using namespace vitrine;

TEST_CASE("a look inside prints the tape, its steps backwards, why a gradient is missing, and a profile") {
  const test::Folder folder;
  test::check_full_output(fmt::format("cd '{}' && {}", folder.path.string(), VITRINE_LOOK_INSIDE));
  const std::string printed =
      test::printed_by(fmt::format("cd '{}' && {}", folder.path.string(), VITRINE_LOOK_INSIDE).c_str());
  INFO(printed);
  size_t at = 0;
  for (const char* text : {"softmax              head", "12 ops, ", "it is cut by detach at op 0", "softmax ",
                           "→", "softmax_backward", "head "}) {
    at = printed.find(text, at);
    CHECK_MESSAGE(at != std::string::npos, text);
  }
  const std::string dot = test::bytes_of_file(folder / "tape.dot");
  CHECK(dot.starts_with("digraph"));
  CHECK(dot.find("query.weight") != std::string::npos);
  CHECK_FALSE(nlohmann::json::parse(std::ifstream(folder / "trace.json")).empty());
}
