// The example of an encoder: it learns images that differ by their rows, and the real digits if
// they are available.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/data.h"
#include "tests/examples/printed.h"
#include "tests/folder.h"

namespace {

/// Lines of 64 pixels and a digit: digit d has its row d % 8 bright, to the left for 8 and 9.
void write_digits(const std::filesystem::path& path, int lines) {
  std::ofstream file(path);
  for (int i = 0; i < lines; ++i) {
    const int digit = i % 10;
    for (int pixel = 0; pixel < 64; ++pixel) {
      const bool bright = pixel / 8 == digit % 8 && (digit < 8 || pixel % 8 < 4);
      file << (bright ? 16 - i % 3 : i * pixel % 3) << ',';
    }
    file << digit << '\n';
  }
}

/// What it prints of the share of digits that are right, in per cent. Its report goes to `folder`.
double right(const std::filesystem::path& folder, const std::string& arguments) {
  const std::string printed = vitrine::test::printed_by(
      ("cd " + folder.string() + " && " VITRINE_CLASSIFY_DIGITS " " + arguments).c_str());
  const size_t at = printed.find("parameters; ");
  REQUIRE_MESSAGE(at != std::string::npos, printed);
  return std::stod(printed.substr(at + 12));
}

}  // namespace

TEST_CASE("an encoder learns drawn digits, and writes a report of it") {
  const vitrine::test::Folder folder;
  CHECK(right(folder.path, "") > 90);
  CHECK(std::filesystem::file_size(folder.path / "reports/classify_digits/report.html") > 10000);
}

TEST_CASE("an encoder learns which row is bright, with attention and with a recurrence of two directions") {
  const vitrine::test::Folder folder;
  write_digits(folder.path / "optdigits.tra", 300);
  write_digits(folder.path / "optdigits.tes", 50);
  const std::string data = "--data " + folder.path.string();
  for (const char* mixer : {"", " --mixer gru"}) CHECK(right(folder.path, data + mixer) > 99);
  // These digits differ by their place alone, so shifted ones are like others.
  CHECK(right(folder.path, data + " --shifts") < 99);
  std::ofstream(folder.path / "optdigits.tes") << "1,2,three\n";
  for (const char* wrong : {"", "/none"})
    CHECK(std::system((VITRINE_CLASSIFY_DIGITS " " + data + wrong + " 2> /dev/null").c_str()) != 0);
}

TEST_CASE("handwritten digits: 95 % and more are right") {
  const vitrine::test::Folder folder;
  if (const auto data = vitrine::test::data_file("digits"))
    CHECK(right(folder.path, "--data " + data->string()) > 95);
}
