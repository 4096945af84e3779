#include "tests/data.h"

#include <cstdlib>

#include "core/error.h"
#include "tests/skip.h"

namespace vitrine::test {
namespace {

namespace fs = std::filesystem;

fs::path beside_the_sources() { return (source_directory() / "../shared/data").lexically_normal(); }

std::optional<fs::path> find_data_directory() {
  if (const char* wanted = std::getenv("VITRINE_DATA"); wanted != nullptr && *wanted != '\0') {
    for (const fs::path& path : {fs::absolute(wanted), source_directory() / wanted})
      if (fs::is_directory(path)) return path;
    fail("VITRINE_DATA is {}, which is not a folder", wanted);
  }
  if (fs::is_directory(beside_the_sources())) return beside_the_sources();
  skip(fmt::format("the reference data are not here. {} does not exist and VITRINE_DATA is not set.",
                   beside_the_sources().string()));
  return std::nullopt;
}

}  // namespace

fs::path source_directory() { return VITRINE_SOURCE_DIR; }

std::optional<fs::path> data_directory() {
  static const std::optional<fs::path> directory = find_data_directory();
  return directory;
}

bool is_default_data_directory() {
  std::error_code absent;
  return data_directory() && fs::equivalent(*data_directory(), beside_the_sources(), absent);
}

std::optional<fs::path> data_file(const fs::path& name) {
  const auto directory = data_directory();
  if (!directory) return std::nullopt;
  const fs::path path = *directory / name;
  if (fs::exists(path)) return path;
  check(!is_default_data_directory(), "there is no {}", path.string());
  skip(fmt::format("there is no {}", path.string()));
  return std::nullopt;
}

}  // namespace vitrine::test
