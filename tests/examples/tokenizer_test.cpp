// tokenizer, run as a user runs it.
#include <sstream>

#include "tests/examples/printed.h"
#include "tests/examples/train_gpt.h"

using namespace vitrine;
using test::printed_by;

TEST_CASE("tokenizer shows each merge, and that a vocabulary from little text overfits") {
  const std::string printed = printed_by(VITRINE_TOKENIZER " --vocabulary 600 --sentence 'the tensor é'");
  CHECK(printed.find("How \"the tensor é\" is split") != std::string::npos);
  CHECK(printed.find("   t|h|e\n   → t|he\n") != std::string::npos);
  CHECK(printed.find("   ␣|t|e|n|s|o|r\n   → ␣|t|e|n|s|or\n   → ␣t|e|n|s|or\n") != std::string::npos);
  CHECK(printed.find("13 bytes, 7 tokens: 116 ") != std::string::npos);
  CHECK(printed.find("␣|<C3>|<A9>\n") != std::string::npos);
  // The lines of the table: bytes, tokens, tokens per byte of the training and the held-out text,
  // and their ratio.
  std::istringstream lines(printed.substr(printed.find("ratio\n") + 6));
  std::vector<double> ratios;
  for (double bytes = 0, tokens = 0, seen = 0, unseen = 0, ratio = 0;
       lines >> bytes >> tokens >> seen >> unseen >> ratio;) {
    CHECK(ratio == doctest::Approx(unseen / seen).epsilon(0.02));
    ratios.push_back(ratio);
  }
  REQUIRE(ratios.size() >= 5);
  CHECK(ratios.front() > 1.5);
  CHECK(ratios.back() < 1.2);
  CHECK(ratios.front() > ratios.back() + 0.5);
  test::check_full_output(VITRINE_TOKENIZER " --help");
}

TEST_CASE("tokenizer shows the pieces of each word") {
  const std::string printed =
      printed_by(VITRINE_TOKENIZER " --kind word_piece --vocabulary 300 --sentence 'The tensor ☃'");
  CHECK_MESSAGE(printed.find("   the → the\n   tensor → tensor\n   ☃ → [UNK]\n") != std::string::npos,
                printed);
  CHECK(printed.find("held-out text") != std::string::npos);
}

TEST_CASE("tokenizer says what is wrong with its text or its flags") {
  const test::train_gpt::TextFolder folder;
  const auto error_of = [&](const std::string& arguments) {
    const std::string log = folder / "log";
    CHECK(std::system((VITRINE_TOKENIZER " " + arguments + " > '" + log + "' 2>&1").c_str()) != 0);
    return test::bytes_of_file(log);
  };
  CHECK(error_of("--vocabulary 9").find("--vocabulary is 9, wanted at least 256") != std::string::npos);
  CHECK(error_of("--data '" + (folder / "text.txt") + "'").find("bytes, wanted at least 10000") !=
        std::string::npos);
  CHECK(error_of("--data /none").find("tokenizer: read_text: cannot open /none") == 0);
}
