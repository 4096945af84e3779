#include "tests/data.h"

#include <cstdio>
#include <cstdlib>

#include "core/error.h"

namespace vitrine::test {
namespace {

namespace fs = std::filesystem;

bool missing = false;

std::optional<fs::path> find_data_directory() {
  if (const char* wanted = std::getenv("VITRINE_DATA"); wanted != nullptr && *wanted != '\0') {
    check(fs::is_directory(wanted), "VITRINE_DATA is {}, which is not a folder", wanted);
    return fs::path(wanted);
  }
  const fs::path beside = (fs::path(VITRINE_SOURCE_DIR) / "../shared/data").lexically_normal();
  if (fs::is_directory(beside)) return beside;
  fmt::print(stderr,
             "SKIPPED, NOT PASSED: the reference data are not here. {} does not exist and VITRINE_DATA is "
             "not set.\n",
             beside.string());
  missing = true;
  return std::nullopt;
}

}  // namespace

std::optional<fs::path> data_directory() {
  static const std::optional<fs::path> directory = find_data_directory();
  return directory;
}

bool data_is_missing() { return missing; }

}  // namespace vitrine::test
