#include "tests/data.h"

#include <cstdlib>

#include "core/error.h"
#include "tests/skip.h"

namespace vitrine::test {
namespace {

namespace fs = std::filesystem;

/// The folder named by VITRINE_DATA, or nothing.
std::optional<fs::path> named_directory() {
  const char* wanted = std::getenv("VITRINE_DATA");
  if (wanted == nullptr || *wanted == '\0') return std::nullopt;
  for (const fs::path& path : {fs::absolute(wanted), source_directory() / wanted})
    if (fs::is_directory(path)) return path;
  fail("VITRINE_DATA is {}, which is not a folder", wanted);
}

std::optional<fs::path> find_data_directory() {
  const auto directory = named_directory();
  if (!directory) skip("VITRINE_DATA does not name a folder of reference data");
  return directory;
}

}  // namespace

fs::path source_directory() { return VITRINE_SOURCE_DIR; }

std::optional<fs::path> data_directory() {
  static const std::optional<fs::path> directory = find_data_directory();
  return directory;
}

std::optional<fs::path> data_file(const fs::path& name) {
  const auto directory = data_directory();
  if (!directory) return std::nullopt;
  const fs::path path = *directory / name;
  if (fs::exists(path)) return path;
  skip(fmt::format("there is no {}", path.string()));
  return std::nullopt;
}

std::vector<CaseFolder> case_folders(const std::string& name) {
  const fs::path golden = source_directory() / "tests/data" / name;
  check(fs::is_directory(golden), "the golden cases {} are missing", golden.string());
  std::vector<CaseFolder> folders = {{golden, true}};
  const auto directory = named_directory();
  if (directory && fs::is_directory(*directory / name) && !fs::equivalent(*directory / name, golden))
    folders.push_back({*directory / name, false});
  return folders;
}

}  // namespace vitrine::test
