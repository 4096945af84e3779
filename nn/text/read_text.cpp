#include "nn/text/read_text.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "core/error.h"

namespace vitrine::nn {

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  check(file.good(), "read_text: cannot open {}: {}", path, std::strerror(errno));
  std::error_code unknown;  // for a pipe
  const auto size = std::filesystem::file_size(path, unknown);
  std::string text;
  if (!unknown) text.reserve(size);
  std::vector<char> part(1 << 16);
  while (file.read(part.data(), std::ssize(part)) || file.gcount() > 0)
    text.append(part.data(), static_cast<size_t>(file.gcount()));
  check(!text.empty(), "read_text: {} is empty or a folder", path);
  return text;
}

}  // namespace vitrine::nn
