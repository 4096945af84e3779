#include "tests/nn/cs336/case.h"

#include <algorithm>
#include <regex>

#include "core/files/safetensors.h"

namespace vitrine::test {
namespace {

/// A number next to the name in prose: "theta 10000", "eps = 1e-5", "2 heads".
std::optional<double> number_in(const std::string& text, const std::string& name) {
  const std::string number = "([0-9]+(?:\\.[0-9]+)?(?:e-?[0-9]+)?)";
  std::smatch found;
  for (const std::string& pattern : {name + "\\s*[=:]?\\s*" + number, number + "\\s+" + name})
    if (std::regex_search(text, found, std::regex("\\b" + pattern + "\\b"))) return std::stod(found[1]);
  return std::nullopt;
}

/// Sizes that the tensors also determine are not settings.
Json without_sizes(Json settings) {
  if (settings.is_null()) return Json::object();
  for (const char* size : {"batch_size", "context_length", "d_ff", "d_in", "d_k", "d_model", "d_out", "d_v",
                           "max_seq_len", "num_layers", "vocab_size"})
    settings.erase(size);
  return settings;
}

}  // namespace

std::optional<double> Cs336Case::find_number(Names names) const {
  for (const char* number_name : names)
    if (settings.has(number_name)) return settings.at(number_name).get<double>();
  for (const char* number_name : names)
    if (const auto found = number_in(about, number_name)) return found;
  return std::nullopt;
}

double Cs336Case::number(Names names) const {
  const auto found = find_number(names);
  check(found.has_value(), "the manifest does not say {}", *names.begin());
  return *found;
}

bool Cs336Case::has(Names names) const {
  return std::any_of(names.begin(), names.end(), [&](const char* tensor) { return tensors.has(tensor); });
}

Tensor Cs336Case::given(Names names) const {
  for (const char* tensor : names)
    if (tensors.has(tensor)) return tensors.at(tensor);
  fail("the case has no tensor {}", *names.begin());
}

Cs336Case read_cs336_case(const Json& entry, const std::filesystem::path& folder) {
  Cs336Case c;
  c.name = entry.at("case"), c.computes = entry.value("computes", c.name), c.about = entry.value("about", "");
  c.settings = Settings(without_sizes(entry.value("settings", Json::object())));
  c.tensors = Inputs(read_safetensors((folder / entry.at("file").get<std::string>()).string()).tensors);
  c.atol = entry.at("atol"), c.rtol = entry.value("rtol", 0.0);
  return c;
}

}  // namespace vitrine::test
