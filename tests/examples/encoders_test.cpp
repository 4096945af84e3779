// The examples of encoders. A few steps of training show that they run; the README has the commands
// of whole runs.
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/examples/printed.h"
#include "tests/folder.h"

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

TEST_CASE("a BERT is pretrained and fine-tuned in each way, on the grammar and on files") {
  const vitrine::test::Folder folder;
  const std::string tiny =
      " --pretraining 2 --steps 2 --seeds 2 --width 8 --layers 1 --heads 2 --examples 40 --page '" +
      (folder / "page.html") + "' 2> /dev/null";
  const std::string printed = printed_by((VITRINE_FINE_TUNE + tiny).c_str());
  CHECK(printed.find(" % of the masked tokens are recovered") != std::string::npos);
  for (const char* word : {"scratch", "whole", "last", "lora", "prompt", "acceptability", "mean"})
    CHECK_MESSAGE(printed.find(word) != std::string::npos, printed);
  CHECK(std::filesystem::file_size(folder / "page.html") > 10000);
  for (const char* name : {"good", "bad"}) {
    std::ofstream file(folder / name);
    for (int i = 0; i < 60; ++i) file << "a " << name << " film of number " << i << "\n";
  }
  const std::string files = (folder / "good") + "," + (folder / "bad");
  const std::string of_files = printed_by((VITRINE_FINE_TUNE " --data " + files + " --classes " + files +
                                           " --ways whole,scratch --mixer rotary --residual pre" + tiny)
                                              .c_str());
  CHECK_MESSAGE(of_files.find("whole") != std::string::npos, of_files);
  CHECK(of_files.find("entailment") == std::string::npos);
  CHECK(of_files.find("lora") == std::string::npos);
  CHECK(std::system((VITRINE_FINE_TUNE " --classes /nowhere" + tiny).c_str()) != 0);
  CHECK(std::system(VITRINE_FINE_TUNE " --rank 0 2> /dev/null") != 0);
  CHECK(std::system(VITRINE_FINE_TUNE " --ways half 2> /dev/null") != 0);
}

TEST_CASE("vectors of sentences are trained for each kind of views and each temperature") {
  const vitrine::test::Folder folder;
  const std::string printed =
      printed_by((VITRINE_SENTENCE_VECTORS " --steps 2 --width 8 --layers 1 --batch 8 --page '" +
                  (folder / "page.html") + "' 2> /dev/null")
                     .c_str());
  for (const char* row :
       {"dropout, temperature 1 ", "pairs, temperature 1 ", "pairs, temperature 0.0333", "uniformity"})
    CHECK_MESSAGE(printed.find(row) != std::string::npos, printed);
  CHECK(std::filesystem::file_size(folder / "page.html") > 10000);
  CHECK(std::system(VITRINE_SENTENCE_VECTORS " --temperatures 0 2> /dev/null") != 0);
  CHECK(std::system(VITRINE_SENTENCE_VECTORS " --views none 2> /dev/null") != 0);
}
