// sample, run as a user runs it: after train_gpt, from the checkpoint alone.
#include <algorithm>

#include "tests/data.h"
#include "tests/examples/printed.h"
#include "tests/examples/train_gpt.h"

using namespace vitrine;
using namespace vitrine::test::train_gpt;
using test::printed_by;

namespace {

std::string sample(const TextFolder& folder, const std::string& more) {
  return printed_by(
      (VITRINE_SAMPLE " '" + (folder / "out/laser.safetensors") + "' --threads 2 " + more).c_str());
}

}  // namespace

TEST_CASE("sample writes what train_gpt has shown, and other text by other flags") {
  const TextFolder folder;
  Program program(folder, tiny(folder, {"--attention", "laser", "--steps", "20", "--out", folder / "out"}));
  REQUIRE_MESSAGE(program.exit_code() == 0, program.printed());
  const std::string text = sample(folder, "--count 9");
  CHECK(text.size() == 10);  // one byte a character, and the end of the line
  CHECK_MESSAGE(program.printed().find("--- sample ---\n" + text + "---") != std::string::npos,
                program.printed());
  CHECK(sample(folder, "").size() == 301);
  CHECK(sample(folder, "--count 9 --prompt fox").starts_with("fox"));
  CHECK(sample(folder, "--count 100 --seed 2") != sample(folder, "--count 100"));
  CHECK(sample(folder, "--count 9 --temperature 0") == sample(folder, "--count 9 --top-k 1"));
  CHECK(sample(folder, "--count 100 --min-p 1") == sample(folder, "--count 100 --temperature 0"));
  CHECK(sample(folder, "--count 100 --beam 1") == sample(folder, "--count 100 --temperature 0"));
  CHECK(sample(folder, "--count 40 --beam 4").size() == 41);
  CHECK(sample(folder, "--count 100 --repetition-penalty 5") != sample(folder, "--count 100"));
  // The text ends before its third character.
  const std::string start = sample(folder, "--count 9 --prompt fox");
  const std::string cut = sample(folder, "--count 9 --prompt fox --stop '" + start.substr(5, 1) + "'");
  CHECK(cut == start.substr(0, start.find(start[5], 3)) + "\n");
  test::check_full_output(VITRINE_SAMPLE " --help");
}

TEST_CASE(
    "a checkpoint has its tokenizer: sample finds byte pairs and words, and a resumed run needs the same") {
  for (const std::string kind : {"bpe", "words"}) {
    CAPTURE(kind);
    const TextFolder folder;
    const Arguments base = {"--attention", "laser", "--tokenizer", kind, "--vocabulary", "270", "--steps"};
    const auto with = [&](Arguments more) {
      more.insert(more.begin(), base.begin(), base.end());
      return tiny(folder, more);
    };
    Program program(folder, with({"20", "--out", folder / "out"}));
    REQUIRE_MESSAGE(program.exit_code() == 0, program.printed());
    const std::string printed = program.printed(), text = sample(folder, "--count 9");
    CHECK_MESSAGE(printed.find("--- sample ---\n" + text + "---") != std::string::npos, printed);
    CHECK(sample(folder, "--count 9 --prompt 'Übung 漢'").starts_with("Übung 漢"));  // in bytes
    CHECK(test::bytes_of_file(folder / "out/report.html").find(kind + ", 270 tokens") != std::string::npos);
    const auto resume = [&](const char* vocabulary) {
      Arguments arguments =
          with({"20", "--out", folder / "out", "--resume", folder / "out/laser.safetensors"});
      std::replace(arguments.begin(), arguments.end(), std::string("270"), std::string(vocabulary));
      Program again(folder, arguments);
      const bool good = again.exit_code() == 0;
      return good ? std::string() : again.printed();
    };
    CHECK(resume("270") == "");
    const std::string refused = resume("269");
    CHECK_MESSAGE(refused.find("train_gpt: resume: the ") != std::string::npos, refused);
  }
}

TEST_CASE("sample says what is wrong with its checkpoint or its flags") {
  const TextFolder folder;
  const auto error_of = [&](const std::string& arguments) {
    const std::string log = folder / "log";
    CHECK(std::system((VITRINE_SAMPLE " " + arguments + " > '" + log + "' 2>&1").c_str()) != 0);
    return test::bytes_of_file(log);
  };
  CHECK(error_of("").find("checkpoint is required") != std::string::npos);
  CHECK(error_of("/none").find("sample: ") == 0);
  CHECK(error_of("x --temprature 1").find("there is no option --temprature; did you mean --temperature?") !=
        std::string::npos);
  CHECK(error_of("x --beam 2 --top-k 3").find("--top-k: with --beam nothing is sampled") !=
        std::string::npos);
  CHECK(error_of("x --length-power 1").find("--length-power: it is for --beam") != std::string::npos);
  CHECK(error_of("x --beam -1").find("--beam is -1, wanted at least 0") != std::string::npos);
  CHECK(error_of("x --min-p 2").find("--min-p is 2, wanted [0, 1]") != std::string::npos);
  CHECK(error_of("x --repetition-penalty 0").find("--repetition-penalty is 0, wanted above 0") !=
        std::string::npos);
  CHECK(error_of("x --top-p 0").find("--top-p is 0, wanted (0, 1]") != std::string::npos);
}

TEST_CASE("sample continues a text with a pretrained model") {
  const std::string folder = (test::source_directory() / "tests/data/pretrained_cases/llama").string();
  const auto run = [&](const std::string& more) {
    return printed_by((VITRINE_SAMPLE " '" + folder + "' --prompt 'the model' " + more).c_str());
  };
  const std::string text = run("--count 5 --temperature 0");
  CHECK(text.starts_with("the model"));
  CHECK(text.size() > 10);
  CHECK(run("--count 5 --beam 1") == text);
}
