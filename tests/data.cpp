#include "tests/data.h"

#include <cstdlib>

#include "core/error.h"
#include "tests/skip.h"

namespace vitrine::test {
namespace {

namespace fs = std::filesystem;

std::optional<fs::path> find_data_directory() {
  if (const char* wanted = std::getenv("VITRINE_DATA"); wanted != nullptr && *wanted != '\0') {
    check(fs::is_directory(wanted), "VITRINE_DATA is {}, which is not a folder", wanted);
    return fs::path(wanted);
  }
  const fs::path beside = (fs::path(VITRINE_SOURCE_DIR) / "../shared/data").lexically_normal();
  if (fs::is_directory(beside)) return beside;
  skip(fmt::format("the reference data are not here. {} does not exist and VITRINE_DATA is not set.",
                   beside.string()));
  return std::nullopt;
}

}  // namespace

std::optional<fs::path> data_directory() {
  static const std::optional<fs::path> directory = find_data_directory();
  return directory;
}

}  // namespace vitrine::test
