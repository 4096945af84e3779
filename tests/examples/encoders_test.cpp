// The examples of encoders. A few steps of training show that they run; the README has the commands
// of whole runs.
#include <string>

#include "tests/examples/printed.h"

using vitrine::test::printed_by;

TEST_CASE("sequences are reversed with any mixer, and counted") {
  const std::string printed = printed_by(VITRINE_REVERSE_SEQUENCES " laser 3");
  CHECK_MESSAGE(
      printed.find(" of 1000 held-out sequences are reversed without a mistake\n") != std::string::npos,
      printed);
  CHECK(std::system(VITRINE_REVERSE_SEQUENCES " nonsense 2> /dev/null") != 0);
  vitrine::test::check_full_output(VITRINE_REVERSE_SEQUENCES " standard 1");
}

TEST_CASE("the odd item of nearly every set is found within seconds") {
  const std::string printed = printed_by(VITRINE_ODD_ONE_OUT " 100");
  const size_t begin = printed.find("the odd item of ");
  REQUIRE_MESSAGE(begin != std::string::npos, printed);
  CHECK_MESSAGE(std::stod(printed.substr(begin + 16)) > 50, printed);  // chance: 10
  CHECK(std::system(VITRINE_ODD_ONE_OUT " 0 2> /dev/null") != 0);
  vitrine::test::check_full_output(VITRINE_ODD_ONE_OUT " 1");
}

TEST_CASE("drawn digits are classified, and a folder without images is an error") {
  const std::string printed = printed_by(VITRINE_CLASSIFY_IMAGES " 40");
  const size_t begin = printed.find("parameters; ");
  REQUIRE_MESSAGE(begin != std::string::npos, printed);
  CHECK_MESSAGE(std::stod(printed.substr(begin + 12)) > 20, printed);  // chance: 10
  CHECK(std::system(VITRINE_CLASSIFY_IMAGES " 1 /nowhere 2> /dev/null") != 0);
  vitrine::test::check_full_output(VITRINE_CLASSIFY_IMAGES " 1");
}

TEST_CASE("tones are heard by a Conformer, and the wrong digits are counted") {
  const std::string printed = printed_by(VITRINE_RECOGNIZE_TONES " 3");
  CHECK_MESSAGE(printed.find(" % of the digits in 300 held-out sounds are wrong\n") != std::string::npos,
                printed);
  CHECK(std::system(VITRINE_RECOGNIZE_TONES " 0 2> /dev/null") != 0);
  vitrine::test::check_full_output(VITRINE_RECOGNIZE_TONES " 1");
}
