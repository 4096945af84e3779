// Mutated configuration files. VITRINE_FUZZ_ROUNDS and VITRINE_FUZZ_SEED as in
// tests/core/files/fuzz.h.
#include <doctest/doctest.h>

#include <ctime>
#include <filesystem>

#include "nn/config_file.h"
#include "tests/core/files/fuzz.h"
#include "tests/environment.h"
#include "tests/folder.h"
#include "tests/nn/config_settings.h"

using namespace vitrine;
using namespace vitrine::nn;

TEST_CASE("2,000 mutated configuration files are read or refused, and what is read can be written again") {
  const std::string whole =
      "# a run\nname = \"a\\tb\" ; c\nruns=[ x, 'y,]', \"z\\\"\" ]\n\nsteps = 40\nrate=2.5e-1\nquiet\n";
  const auto rounds = test::from_environment("VITRINE_FUZZ_ROUNDS", 2000);
  Generator random(static_cast<uint64_t>(test::from_environment("VITRINE_FUZZ_SEED", 1)));
  const test::Folder folder;
  const std::string path = folder / "run.ini";
  const auto read = [&](const std::string& text) {
    std::filesystem::remove(path);
    test::write_bytes(path, text);
    test::ConfigSettings settings;
    OptionList list = options_of(settings);
    read_config(path, list);
    return settings;
  };
  int64_t refused = 0;
  for (int64_t round = 0; round < rounds; ++round) {
    const std::string text = test::mutated(whole, "0123456789[]\"'#;=,\\ -.e\nasx", random);
    INFO(text);
    const std::clock_t start = std::clock();
    test::ConfigSettings settings;
    try {
      settings = read(text);
    } catch (const Error& error) {
      CHECK(std::string(error.what()).size() < 4000);
      ++refused;
      continue;
    }
    OptionList list = options_of(settings);
    const test::ConfigSettings again = read(config_text(list, ""));
    CHECK(again.name == settings.name);
    CHECK(again.runs == settings.runs);
    CHECK(again.steps == settings.steps);
    CHECK(again.rate == settings.rate);
    CHECK(again.quiet == settings.quiet);
    CHECK(std::clock() - start <= CLOCKS_PER_SEC);
  }
  CHECK(refused > rounds / 10);
  CHECK(refused < rounds);
}
