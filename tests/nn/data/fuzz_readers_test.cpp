// Mutated files for the readers of data. VITRINE_FUZZ_ROUNDS and VITRINE_FUZZ_SEED as in
// tests/core/files/fuzz.h.
#include <doctest/doctest.h>

#include <cmath>
#include <ctime>
#include <filesystem>

#include "core/creation.h"
#include "core/random.h"
#include "nn/data/idx.h"
#include "nn/data/image.h"
#include "nn/data/json_lines.h"
#include "nn/data/wav.h"
#include "tests/core/files/fuzz.h"
#include "tests/environment.h"
#include "tests/folder.h"
#include "tests/nn/data/files.h"

using namespace vitrine;
using namespace vitrine::nn;
using namespace vitrine::test;
using namespace std::string_literals;

TEST_CASE("mutated IDX files are read or refused, and no block of memory is larger than the file") {
  fuzz_reader({idx(0x08, {2, 3}, "abcdef"), idx(0x0D, {1, 2}, "\x3F\xC0\x00\x00\x3F\xC0\x00\x00"s),
               idx(0x0C, {0, 2}, ""), idx(0x0E, {}, "\xC0\x04\x00\x00\x00\x00\x00\x00"s)},
              "\x00\x01\x02\x03\x08\x0B\x0C\x0D\x0E\x7F\xFF"s,
              [](const std::string& path) { return std::vector<Tensor>{read_idx(path)}; });
}

TEST_CASE("so are mutated JSON lines") {
  const std::string first = R"({"text": "a\u00e9 é", "label": 3})", second = R"({"label":12,"text":"x"})";
  fuzz_reader(
      {first + "\n" + R"({"text": "", "label": -1, "more": [1, {"a": null}]})" + "\n", second + "\r\n"},
      "0123456789{}[]\",:-\\eu\n\xC3\xFF", [](const std::string& path) {
        std::vector<Tensor> numbers;
        for (const JsonRecord& record : read_json_lines(path)) {
          record.text("text");
          numbers.push_back(index_tensor(std::vector{record.whole("label")}, {}));
        }
        return numbers;
      });
}

TEST_CASE("so are mutated files of optdigits") {
  const std::string line =
      "0,0,5,13,9,1,0,0,0,0,13,15,10,15,5,0,0,3,15,2,0,11,8,0,0,4,12,0,0,8,8,0,"
      "0,5,8,0,0,9,8,0,0,4,11,0,1,12,7,0,0,2,14,5,10,12,0,0,0,0,6,13,10,0,0,0,0\n";
  fuzz_reader({line, line + line}, "0123456789,-+ .\r\n", [](const std::string& path) {
    std::vector<Tensor> images;
    const Dataset<LabelledImage> digits = read_optdigits(path);
    for (int64_t i = 0; i < digits.size(); ++i) images.push_back(digits[i].image);
    return images;
  });
}

// libsndfile allocates by itself what is no larger for a large header, so only the samples are
// compared with the file here.
TEST_CASE("a few hundred mutated WAV files are read or refused") {
  const auto rounds = from_environment("VITRINE_FUZZ_ROUNDS", 500);
  Generator random(static_cast<uint64_t>(from_environment("VITRINE_FUZZ_SEED", 1)));
  const Folder folder;
  const std::string path = folder / "mutated";
  const std::string files[] = {wav({.data = std::string(40, 'a')}), wav({.bits = 8, .data = "abcde"}),
                               wav({.bits = 32, .format = 3, .data = std::string(32, '\x40')}),
                               wav({.bits = 24, .data = "abcdef"})};
  int64_t refused = 0;
  for (int64_t round = 0; round < rounds; ++round) {
    std::string bytes = files[static_cast<size_t>(round % std::ssize(files))];
    for (int64_t edits = 1 + random.next_below(3); edits > 0 && !bytes.empty(); --edits) {
      const auto at = static_cast<size_t>(random.next_below(std::ssize(bytes)));
      switch (random.next_below(5)) {
        case 0: bytes[at] = static_cast<char>(random.next_below(256)); break;
        case 1: bytes[at] = static_cast<char>(bytes[at] ^ 1 << random.next_below(8)); break;
        case 2: bytes.resize(at); break;
        case 3: bytes.insert(at, bytes.substr(at / 2, 8)); break;
        default: bytes.replace(at, 4, "\xFF\xFF\xFF\x7F"s.substr(0, std::min<size_t>(4, bytes.size() - at)));
      }
    }
    // Also a header whose size is right, so that the chunks and libsndfile are reached
    if (random.next_below(2) == 0 && bytes.size() > 8) bytes.replace(4, 4, little_endian(bytes.size() - 8));
    std::filesystem::remove(path);  // a file that is written over would be flushed to the disk
    write_bytes(path, bytes);
    const std::clock_t start = std::clock();
    try {
      const Tensor samples = read_wav(path, 8000);
      CHECK(static_cast<size_t>(samples.numel()) < bytes.size());
      for (const double x : samples.values()) CHECK(std::abs(x) < 1e39);
    } catch (const Error&) {
      ++refused;
    }
    CHECK(std::clock() - start <= CLOCKS_PER_SEC);
  }
  CHECK(refused > rounds / 10);
  CHECK(refused < rounds);
}
