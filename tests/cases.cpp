#include "tests/cases.h"

#include <fstream>

#include "tests/data.h"

namespace vitrine::test {

std::optional<Json> read_json(const std::string& name) {
  const auto path = data_file(name);
  if (!path) return std::nullopt;
  try {
    return Json::parse(std::ifstream(*path));
  } catch (const Json::exception& e) {
    fail("{} is no JSON: {}", path->string(), e.what());
  }
}

std::map<std::string, std::string> read_skips(const std::string& path) {
  std::ifstream file(source_directory() / path);
  check(file.good(), "there is no {}", path);
  std::map<std::string, std::string> skips;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    const size_t colon = line.find(": ");
    check(colon != std::string::npos && colon + 2 < line.size(),
          "{}: `{}` gives no reason: wanted `name: reason`", path, line);
    skips[line.substr(0, colon)] = line.substr(colon + 2);
  }
  return skips;
}

}  // namespace vitrine::test
