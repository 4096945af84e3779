// The lesson in CUDA prints what docs/cuda.md says that it prints.
#include <fstream>
#include <sstream>

#include "tests/examples/printed.h"
#include "tests/skip.h"

#ifdef VITRINE_CUDA_LESSON

namespace {

/// Words apart by one blank.
std::string words(std::istream& in) {
  std::string text, word;
  while (in >> word) text += text.empty() ? word : " " + word;
  return text;
}

}  // namespace

TEST_CASE("what the lesson in CUDA prints of races, bounds, unwritten memory and costs is in docs/cuda.md") {
  std::ifstream file(VITRINE_SOURCE_DIR "/docs/cuda.md");
  const std::string document = words(file);
  std::istringstream lines(vitrine::test::printed_by(VITRINE_CUDA_LESSON));
  int quoted = 0;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream in(line);
    const std::string text = words(in);
    const bool told = text.starts_with("kernel ") || text.starts_with("transpose");
    if (!told || text.starts_with("kernel barrier_in_branch")) continue;
    CHECK_MESSAGE(document.find(text) != std::string::npos, text);
    ++quoted;
  }
  CHECK(quoted == 3 + 4);
}

#else

TEST_CASE("the lesson in CUDA") { vitrine::test::skip("it runs in builds with examples and the emulator"); }

#endif
