// The example of an encoder-decoder. A few steps of training show that it runs; .ci/models runs it
// in full.
#include <filesystem>
#include <string>
#include <utility>

#include "core/files/safetensors.h"
#include "tests/examples/parallel_text.h"
#include "tests/examples/printed.h"
#include "tests/folder.h"

using vitrine::test::bytes_of_file, vitrine::test::printed_by;

namespace {

constexpr const char* kTiny = VITRINE_TRANSLATE " --steps 3 --width 16 --evaluate-every 3";

}  // namespace

TEST_CASE("dates are translated, measured, printed and shown with their attention") {
  const vitrine::test::Folder folder;
  const std::string out = " --out " + folder.path.string();
  const std::string printed = printed_by((kTiny + out).c_str());
  CHECK_MESSAGE(printed.find(" % right of 999 held-out pairs by beam search\n") != std::string::npos,
                printed);
  int shown = 0;
  for (size_t at = 0; (at = printed.find(" → ", at)) != std::string::npos; ++at) ++shown;
  CHECK(shown == 5);
  const std::string page = bytes_of_file(folder / "report.html");
  CHECK(page.find("map-thumbs") != std::string::npos);
  CHECK(page.find("<h3>Held-out pairs</h3>") != std::string::npos);
  CHECK(std::system(VITRINE_TRANSLATE " --steps 0 2> /dev/null") != 0);
  CHECK(std::system(VITRINE_TRANSLATE " 3 2> /dev/null") != 0);
  CHECK(std::system((kTiny + out + " --data one.txt 2> /dev/null").c_str()) != 0);
  vitrine::test::check_full_output(kTiny + out);
}

TEST_CASE("parallel text is translated, with byte pairs and BLEU") {
  const vitrine::test::Folder folder;
  const std::string printed =
      printed_by((kTiny + vitrine::test::parallel_text_in(folder) + " --out " + (folder / "run")).c_str());
  CHECK_MESSAGE(printed.find(" BLEU of 6 held-out pairs by beam search\n") != std::string::npos, printed);
}

TEST_CASE(
    "a run with 16-bit weights, buckets of lengths and blocks computed again leaves its options and report") {
  const vitrine::test::Folder folder;
  const std::string options =
      " --dtype bfloat16 --tokens 2000 --remove-longest 0.1 --checkpoint-blocks --best-by loss --patience 5";
  const std::string printed = printed_by((kTiny + options + " --out " + folder.path.string()).c_str());
  CHECK_MESSAGE(printed.find(" % right of 999 held-out pairs") != std::string::npos, printed);
  CHECK(std::filesystem::file_size(folder / "mixer_standard/report.html") > 10000);
  const auto metadata = vitrine::read_safetensors(folder / "mixer_standard/checkpoint.safetensors").metadata;
  const std::pair<const char*, const char*> settings[] = {
      {"dtype", "bfloat16"}, {"tokens", "2000"}, {"remove longest", "0.1"}};
  for (const auto& setting : settings)
    CHECK_MESSAGE(metadata.at(setting.first) == setting.second, std::string(setting.first));
  CHECK(bytes_of_file(folder / "config.ini").find("checkpoint-blocks = true") != std::string::npos);
  // The options in the file make the same model.
  const std::string checkpoint = folder / "mixer_standard/checkpoint.safetensors",
                    first = bytes_of_file(checkpoint);
  const std::string again = printed_by((VITRINE_TRANSLATE " --config " + (folder / "config.ini")).c_str());
  CHECK_MESSAGE(again == printed, again);
  CHECK((bytes_of_file(checkpoint) == first));
}
