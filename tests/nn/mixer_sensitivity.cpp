// Whether each row of the tables, and each of its options, changes what is computed.
#include <algorithm>
#include <cmath>
#include <map>

#include "tests/nn/modules.h"
#include "tests/nn/small_mixers.h"
#include "tests/ops/reference.h"

namespace vitrine::test::small_mixers {
namespace {

/// The values that a test tries for an option; the empty text is the default.
std::vector<std::string> values_of(const nn::PartOption& option) {
  std::vector<std::string> values = option.words;
  if (!option.initial.empty() || option.optional) values.insert(values.begin(), "");
  if (option.number) values.insert(values.end(), {"2", "3", "8", "0.5", "4"});
  return values;
}

/// All names of the part with these values of its options: "fixed=stride=3:summary=2".
std::vector<std::map<std::string, std::string>> settings_of(const std::vector<nn::PartOption>& options) {
  std::vector<std::map<std::string, std::string>> all = {{}};
  for (const nn::PartOption& option : options) {
    std::vector<std::map<std::string, std::string>> longer;
    for (const auto& setting : all)
      for (const std::string& value : values_of(option)) {
        longer.push_back(setting);
        longer.back()[option.name] = value;
      }
    all = std::move(longer);
  }
  return all;
}

/// The output of the part with these options on a sequence that is longer than most views.
/// Undefined if the values are out of range.
Tensor output_of(const std::string& part, const std::map<std::string, std::string>& setting) {
  std::string name = part;
  for (const auto& [option, value] : setting)
    if (!value.empty()) name += (name == part ? "=" : ":") + option + "=" + value;
  try {
    return made(name)->forward(normal({1, 12, kWidth}, 8), call_of(name));
  } catch (const Error&) {
    return {};
  }
}

}  // namespace
}  // namespace vitrine::test::small_mixers

namespace vitrine::test {

std::vector<Finding> check_sensitivity(const std::string& name, const std::vector<nn::PartOption>& options) {
  using namespace small_mixers;
  const Tensor without = output_of("standard", {});
  std::map<std::string, Finding> findings;
  findings["effect"] = failed("effect", "the output with it is the output without it");
  for (const nn::PartOption& option : options)
    findings[option.name] = failed("effect of " + option.name, "its value changes nothing");
  const auto note = [](Finding& finding, const Tensor& x, const Tensor& y) {
    finding.error = std::max(finding.error, distance(x, y, 1e-2));
    if (finding.error > 1e-6) finding.failure.clear();
  };
  auto settings = settings_of(options);
  // The last ones set every option, so that one of them shows all effects.
  std::ranges::reverse(settings);
  for (const auto& setting : settings) {
    if (std::ranges::all_of(findings, [](const auto& f) { return f.second.failure.empty(); })) break;
    const Tensor y = output_of(name, setting);
    if (!y.defined()) continue;
    note(findings["effect"], y, without);
    for (const nn::PartOption& option : options) {
      auto first = setting;  // differs from `setting` in this option alone
      first[option.name] = values_of(option)[0];
      if (!findings[option.name].failure.empty())
        if (const Tensor other = output_of(name, first); other.defined())
          note(findings[option.name], y, other);
    }
  }
  std::vector<Finding> all;
  for (const auto& [option, finding] : findings) all.push_back(finding);
  return all;
}

Finding check_module_effect(const std::string& name) {
  using namespace small_mixers;
  const auto output = [](const std::string& module) {
    return made(module)->forward(normal({2, 12, kWidth}, 8), call_of(module));
  };
  const Tensor y = output(name);
  Finding finding{.check = "effect", .error = INFINITY, .note = "the only one of its shape"};
  std::string nearest;
  for (const ModuleRow& other : module_rows()) {
    if (other.name == name) continue;
    const Tensor z = output(other.name);
    if (z.shape() != y.shape()) continue;
    finding.note.clear();
    if (const double difference = distance(y, z, 1e-2); difference < finding.error)
      finding.error = difference, nearest = other.name;
  }
  if (!(finding.error > 1e-6)) finding.failure = "the output is that of " + nearest;
  return finding;
}

}  // namespace vitrine::test
