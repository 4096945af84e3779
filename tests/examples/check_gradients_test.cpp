// The example of gradient checks: right gradients are reported as right, and each planted mistake
// by its name.
#include <utility>
#include <vector>

#include "tests/examples/printed.h"

TEST_CASE("each mistake is reported with its cause and place, and what is right as right") {
  vitrine::test::check_full_output(VITRINE_CHECK_GRADIENTS);
  const std::string printed = vitrine::test::printed_by(VITRINE_CHECK_GRADIENTS);
  /// A title of the example, and what its report has to say.
  const std::pair<const char*, std::vector<const char*>> reports[] = {
      {"as it should be", {": right\n"}},
      {"dx has the wrong sign", {": WRONG\n", "likely cause: sign: the gradient of input 0 is the negative"}},
      {"da is a mean, not a sum",
       {": WRONG\n", "likely cause: factor: the gradient of input 1 is 1/12 times"}},
      {"db is not summed over the rows", {": WRONG\n", "likely cause: missing sum: the gradient of input 2"}},
      {"dx forgets that the sigmoid depends on x, too",
       {": WRONG\n", "likely cause: unknown: the gradient of input 0", "a term of the formula?"}},
      {"a is used as a plain number", {": WRONG\n", "likely cause: cut: the gradient of input 1 is 0"}},
      {"a point where there is no derivative", {": UNDECIDED\n", "likely cause: kink: at [1] of input 0"}},
      {"float32: too coarse for differences", {": UNDECIDED\n", "likely cause: low precision: input 0"}},
      {"second derivatives, too", {": right\n", "derivative 2"}},
      {"a second derivative that a pause cuts",
       {": WRONG\n", "likely cause: failed: the derivative of order 2: backward of exp_with_a_pause",
        "a Tape::Pause kept off the tape"}},
      {"which op of a tape is wrong?",
       {"first wrong: op 1 swish; likely cause: unknown: the gradient of input 0", "op 2 sum"}},
  };
  size_t at = 0;
  for (const auto& expected : reports) {
    const std::string title = std::string("--- ") + expected.first + "\n";
    at = printed.find(title, at);
    REQUIRE_MESSAGE(at != std::string::npos, "no report, or in another order: ", title);
    const std::string report = printed.substr(at, printed.find("\n--- ", at) - at);
    for (const char* words : expected.second) CHECK_MESSAGE(report.find(words) != std::string::npos, report);
    const bool causeless = report.find("likely cause") == std::string::npos;
    CHECK(causeless == (report.find(": right\n") != std::string::npos));
  }
  CHECK(printed.find("\n--- ", at + 1) == std::string::npos);
}
