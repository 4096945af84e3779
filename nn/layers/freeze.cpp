#include "nn/layers/freeze.h"

#include <string_view>

namespace vitrine::nn {
namespace {

/// The first name of a path, and the rest.
std::pair<std::string_view, std::string_view> first_of(std::string_view path) {
  const size_t dot = path.find('.');
  if (dot == std::string_view::npos) return {path, {}};
  return {path.substr(0, dot), path.substr(dot + 1)};
}

/// Whether one name fits a pattern in which * is any text.
bool name_matches(std::string_view name, std::string_view pattern) {
  if (pattern.empty()) return name.empty();
  if (pattern.front() != '*')
    return !name.empty() && name.front() == pattern.front() &&
           name_matches(name.substr(1), pattern.substr(1));
  for (size_t i = 0; i <= name.size(); ++i)
    if (name_matches(name.substr(i), pattern.substr(1))) return true;
  return false;
}

bool matches(std::string_view path, std::string_view pattern) {
  if (pattern.empty()) return true;  // the pattern names a module that contains the path
  const auto [wanted, other_names] = first_of(pattern);
  if (wanted == "**" && matches(path, other_names)) return true;
  if (path.empty()) return false;
  const auto [name, rest] = first_of(path);
  if (wanted == "**") return matches(rest, pattern);
  return name_matches(name, wanted) && matches(rest, other_names);
}

int64_t set(const char* op, Module& module, const std::string& pattern, bool trained) {
  int64_t count = 0;
  for (auto& [path, parameter] : module.named_parameters()) {
    if (!path_matches(path, pattern)) continue;
    parameter.requires_grad(trained);
    ++count;
  }
  check(count > 0, "{}: no parameter has the pattern {}", op, pattern);
  return count;
}

}  // namespace

bool path_matches(const std::string& path, const std::string& pattern) { return matches(path, pattern); }
int64_t freeze(Module& module, const std::string& pattern) { return set("freeze", module, pattern, false); }
int64_t unfreeze(Module& module, const std::string& pattern) {
  return set("unfreeze", module, pattern, true);
}

}  // namespace vitrine::nn
