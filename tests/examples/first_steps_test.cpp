// The first example: the exclusive or is learned, and the tape of its first step is printed.
#include <algorithm>
#include <cmath>
#include <sstream>

#include "tests/examples/printed.h"

TEST_CASE("the first steps print a tape, and four probabilities near 0, 1, 1 and 0") {
  vitrine::test::check_full_output(VITRINE_FIRST_STEPS);
  const std::string printed = vitrine::test::printed_by(VITRINE_FIRST_STEPS);
  for (const char* op : {" linear ", " tanh ", " ops, "})
    CHECK_MESSAGE(printed.find(op) != std::string::npos, printed);

  const size_t result = printed.find("[[");
  REQUIRE_MESSAGE(result != std::string::npos, printed);
  CHECK_MESSAGE(printed.find("float32[4, 1] on cpu", result) != std::string::npos, printed);
  std::string numbers = printed.substr(result);
  std::replace_if(
      numbers.begin(), numbers.end(), [](char c) { return c == '[' || c == ']' || c == ','; }, ' ');
  std::istringstream in(numbers);
  for (const double want : {0, 1, 1, 0}) {
    double got = NAN;
    in >> got;
    CHECK(std::abs(got - want) < 0.05);
  }
}
