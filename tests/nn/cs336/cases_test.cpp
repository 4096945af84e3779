// The reference cases of Stanford's course CS336 that are in the directory.
#include <doctest/doctest.h>

#include "tests/cases.h"
#include "tests/data.h"
#include "tests/nn/cs336/case.h"

using namespace vitrine::test;

TEST_CASE("reference cases of CS336") {
  const auto folder = data_file("cs336_cases");
  if (!folder) return;
  CaseRunner runner;
  const Json manifest = read_json(*folder / "manifest.json");
  runner.run(manifest.at("cases"), "case",
             [&](const Json& entry) { check_cs336(read_cs336_case(entry, *folder)); });
  CHECK(runner.failures() == "");
  CHECK(runner.ran() == static_cast<int>(manifest.at("cases").size()));
}
