#include "tests/skip.h"

#include <fmt/format.h>

#include <cstdio>

namespace vitrine::test {
namespace {

bool skipped = false;

}  // namespace

void skip(std::string_view reason) {
  fmt::print(stderr, "SKIPPED, NOT PASSED: {}\n", reason);
  skipped = true;
}

bool was_skipped() { return skipped; }

}  // namespace vitrine::test
