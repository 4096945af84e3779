// Mutated records of runs. VITRINE_FUZZ_ROUNDS and VITRINE_FUZZ_SEED as in tests/core/files/fuzz.h.
#include <doctest/doctest.h>

#include <ctime>
#include <filesystem>

#include "nn/report/record_file.h"
#include "nn/report/report.h"
#include "tests/core/files/fuzz.h"
#include "tests/environment.h"
#include "tests/folder.h"
#include "tests/nn/report/whole_record.h"

using namespace vitrine;
using namespace vitrine::nn::report;

TEST_CASE("1,000 mutated records are drawn or refused") {
  const test::Folder folder;
  const std::string path = folder / "record.json";
  write_record(path, test::whole_record());
  const std::string whole = test::bytes_of_file(path);
  const auto rounds = test::from_environment("VITRINE_FUZZ_ROUNDS", 1000);
  Generator random(static_cast<uint64_t>(test::from_environment("VITRINE_FUZZ_SEED", 1)));
  int64_t refused = 0;
  for (int64_t round = 0; round < rounds; ++round) {
    const std::string text = test::mutated(whole, "0123456789[]{}\":,\\-.eE\nnul%", random);
    INFO(text);
    std::filesystem::remove(path);
    test::write_bytes(path, text);
    const std::clock_t start = std::clock();
    try {
      const RunRecord record = read_record(path);
      CHECK(render_report("t", {record}).size() < 1'000'000);
      CHECK(render_report("t", {record, record}).size() < 1'000'000);
    } catch (const Error& error) {
      CHECK(std::string(error.what()).size() < 4000);
      ++refused;
    }
    CHECK(std::clock() - start <= CLOCKS_PER_SEC);
  }
  CHECK(refused > rounds / 10);
  CHECK(refused < rounds);
}
