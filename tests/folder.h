// Files of a test.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "core/error.h"

namespace vitrine::test {

/// An empty folder, gone with all that is in it when the test ends.
struct Folder {
  Folder() : path(std::filesystem::temp_directory_path() / "vitrine_XXXXXX") {
    std::string name = path.string();
    check(mkdtemp(name.data()) != nullptr, "a test has no folder at {}", name);
    path = name;
  }
  ~Folder() {
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    std::filesystem::remove_all(path);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string operator/(const std::string& name) const { return (path / name).string(); }
  /// The number of files and folders in it.
  int64_t entries() const { return std::distance(std::filesystem::directory_iterator(path), {}); }

  std::filesystem::path path;
};

inline std::string bytes_of_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace vitrine::test
