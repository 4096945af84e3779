#include "tests/data.h"

#include <doctest/doctest.h>

TEST_CASE("the data directory, where it is present, has its README") {
  if (const auto directory = vitrine::test::data_directory())
    CHECK(std::filesystem::exists(*directory / "README.md"));
}
