#include "tests/cases.h"

#include <fstream>

#include "tests/data.h"

namespace vitrine::test {

Json read_json(const std::filesystem::path& path) {
  std::ifstream file(path);
  check(file.good(), "there is no {}", path.string());
  try {
    return Json::parse(file);
  } catch (const Json::exception& e) {
    fail("{} is no JSON: {}", path.string(), e.what());
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

CaseRunner::CaseRunner(const std::string& skips) {
  if (!skips.empty()) skips_ = read_skips(skips);
}

void CaseRunner::run(const Json& cases, const std::string& field,
                     const std::function<void(const Json&)>& test) {
  check(cases.is_array(), "the manifest lists no cases");
  for (size_t i = 0; i < cases.size(); ++i) {
    const Json& c = cases[i];
    const bool named = c.is_object() && c.contains(field) && c[field].is_string();
    run_one(named ? c[field].get<std::string>() : fmt::format("case {} of the manifest", i),
            [&] { test(c); });
  }
}

void CaseRunner::run_one(const std::string& name, const std::function<void()>& test) {
  skips_this_ = false;
  try {
    test();
  } catch (const std::exception& e) {
    failures_ += fmt::format("{}: {}\n", name, e.what());
    skips_this_ = false;
  }
  ++(skips_this_ ? skipped_ : ran_);
}

bool CaseRunner::skips(const std::string& key) {
  if (skips_.count(key) == 0) return false;
  used_.insert(key);
  return skips_this_ = true;
}

std::string CaseRunner::unused_skips() const {
  std::string unused;
  for (const auto& line : skips_)
    if (used_.count(line.first) == 0) unused += (unused.empty() ? "" : ", ") + line.first;
  return unused;
}

}  // namespace vitrine::test
