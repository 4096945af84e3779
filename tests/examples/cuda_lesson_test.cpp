// The lesson in CUDA prints what docs/cuda.md says that it prints.
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tests/data.h"
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
  std::ifstream file(vitrine::test::source_directory() / "docs/cuda.md");
  const std::string document = words(file);
  vitrine::test::check_full_output(VITRINE_CUDA_LESSON);
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

TEST_CASE("in gdb the lesson stops at a line of a kernel, whose name is on the stack") {
  if (std::system("command -v gdb >/dev/null") != 0) return vitrine::test::skip("there is no gdb here");
  std::ifstream file(vitrine::test::source_directory() / "examples/cuda_lesson.cpp");
  int line = 0;  // of the barrier
  for (std::string text; std::getline(file, text) && text.find("  __syncthreads();") != 0;) ++line;
  const std::string place = "cuda_lesson.cpp:" + std::to_string(line + 2);
  const std::string told = vitrine::test::printed_by(
      ("gdb -batch -ex 'break " + place + "' -ex run -ex bt -ex kill " VITRINE_CUDA_LESSON " 2>&1").c_str());
  if (told.find("ptrace: Operation not permitted") != std::string::npos)
    return vitrine::test::skip("gdb may not trace programs here");
  CHECK_MESSAGE(told.find("reverse (") != std::string::npos, told);
  CHECK_MESSAGE(told.find(place) != std::string::npos, told);
}

#else

TEST_CASE("the lesson in CUDA") { vitrine::test::skip("it runs in builds with examples and the emulator"); }

#endif
