// The example of an encoder-decoder. A few steps of training show that it runs; what it learns is
// in docs/training.md.
#include <string>

#include "tests/examples/printed.h"

TEST_CASE("dates are translated, counted and printed") {
  const std::string printed = vitrine::test::printed_by(VITRINE_TRANSLATE_DATES " 3");
  const size_t end = printed.find(" of 1000 held-out dates are right\n");
  REQUIRE_MESSAGE(end != std::string::npos, printed);
  int shown = 0;
  for (size_t at = 0; (at = printed.find(" → ", at)) != std::string::npos; ++at) ++shown;
  CHECK(shown == 5);
  CHECK(std::system(VITRINE_TRANSLATE_DATES " 0 2> /dev/null") != 0);
  CHECK(std::system(VITRINE_TRANSLATE_DATES " 1 2 3 2> /dev/null") != 0);
  vitrine::test::check_full_output(VITRINE_TRANSLATE_DATES " 1");
}
