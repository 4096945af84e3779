// Attention by name: the table of parts.
#include <algorithm>
#include <cmath>
#include <functional>
#include <sstream>

#include "nn/attention/attention.h"

namespace vitrine::nn {
namespace {

using Setting = AttentionSetting;

struct Part {
  const char* name;
  const char* help;
  std::function<void(Setting&, double)> apply;
  /// Behind a =: nothing, a number, or for which n keys it scales, which may be left out.
  enum class Takes { nothing, number, keys } takes = Takes::nothing;
};

const std::vector<Part>& parts() {
  static const std::vector<Part> table = {
      {"standard", "scaled dot product, softmax, weighted mean (Vaswani et al. 2017)",
       [](Setting&, double) {}},
      {"laser", "read by the log of a weighted mean of e^v (Duvvuri and Dhillon 2024)",
       [](Setting& s, double) { s.read = AttentionRead::laser; }},
      {"cosine", "cosine of query and key, times the gradient-optimal scale; =N and =visible as for optimal",
       [](Setting& s, double) { s.score = Setting::Score::cosine; }, Part::Takes::keys},
      {"qk_norm", "LayerNorm of queries and keys per head (Henry et al. 2020)",
       [](Setting& s, double) { s.qk_norm = Setting::QkNorm::layer; }},
      {"qk_norm_rms", "RMSNorm of queries and keys per head",
       [](Setting& s, double) { s.qk_norm = Setting::QkNorm::rms; }},
      {"temperature", "a learned scale per channel of the queries",
       [](Setting& s, double) { s.temperature = true; }},
      {"rotary", "rotary positions (Su et al. 2021)", [](Setting& s, double) { s.rotary = true; }},
      {"alibi", "scores lowered in proportion to distance (Press et al. 2021)",
       [](Setting& s, double) { s.alibi = true; }},
      {"optimal",
       "the scale that maximizes the softmax's gradient at half the context (Su 2023); =N: at N keys, "
       "=visible: at those that a query sees",
       [](Setting& s, double) { s.scale = Setting::Scale::optimal; }, Part::Takes::keys},
      {"entropy",
       "a scale that keeps the entropy of the weights about constant (Su 2021); =N and =visible as above",
       [](Setting& s, double) { s.scale = Setting::Scale::entropy; }, Part::Takes::keys},
      {"scale", "scale=X: X as the whole factor of the scores",
       [](Setting& s, double x) { s.scale = Setting::Scale::constant, s.constant = x; }, Part::Takes::number},
      {"softcap", "softcap=X: X·tanh(s/X)", [](Setting& s, double x) { s.softcap = x; }, Part::Takes::number},
  };
  return table;
}

/// Levenshtein's distance.
size_t edits(const std::string& x, const std::string& y) {
  std::vector<size_t> row(y.size() + 1);
  for (size_t j = 0; j < row.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= x.size(); ++i) {
    size_t diagonal = row[0]++;
    for (size_t j = 1; j <= y.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (x[i - 1] != y[j - 1])});
      diagonal = above;
    }
  }
  return row.back();
}

const Part* find_part(const std::string& name) {
  const auto& table = parts();
  const auto found = std::find_if(table.begin(), table.end(), [&](const Part& p) { return p.name == name; });
  return found == table.end() ? nullptr : &*found;
}

bool is_registered(const std::string& name) {
  const auto& table = detail::registered_parts();
  return std::any_of(table.begin(), table.end(), [&](const auto& p) { return p.name == name; });
}

[[noreturn]] void fail_unknown(const std::string& name, const std::string& whole) {
  std::string nearest = "standard";
  const auto consider = [&](const std::string& known) {
    if (edits(name, known) < edits(name, nearest)) nearest = known;
  };
  for (const Part& part : parts()) consider(part.name);
  for (const auto& part : detail::registered_parts()) consider(part.name);
  fail("attention: there is no part {} in {}; did you mean {}? Known are:\n{}", name, whole, nearest,
       attention_parts());
}

/// NaN for what is no finite number.
double to_number(const std::string& text) {
  size_t used = 0;
  double number = 0;
  try {
    number = std::stod(text, &used);
  } catch (const std::exception&) {
  }
  return used > 0 && used == text.size() && std::isfinite(number) ? number : NAN;
}

double parse_number(const std::string& key, const std::string& text) {
  const double number = to_number(text);
  check(number > 0, "attention: {} wants a finite number above 0, got {}", key, text);
  return number;
}

/// Behind the = of a scale: for which n it is.
void parse_keys(Setting& s, const std::string& key, const std::string& text, const std::string& whole) {
  check(s.keys == Setting::Keys::half_context, "attention: {} says twice for how many keys it scales", whole);
  if (text == "visible") {
    s.keys = Setting::Keys::visible;
  } else {
    s.keys = Setting::Keys::given, s.n = to_number(text);
    check(s.n >= 2, "attention: {} wants a number of keys from 2 on, or visible, got {}", key, text);
  }
}

std::vector<detail::RegisteredPart>& registry() {
  static std::vector<detail::RegisteredPart> table;
  return table;
}

}  // namespace

const std::vector<detail::RegisteredPart>& detail::registered_parts() { return registry(); }

void register_mechanism(const std::string& name, const std::string& help, AttentionPartFactory make) {
  check(!name.empty() && name.find_first_of("+=, ") == std::string::npos,
        "register_mechanism: `{}` is no name: wanted letters without + = , or spaces", name);
  check(find_part(name) == nullptr && !is_registered(name), "register_mechanism: there is a part {} already",
        name);
  check(make != nullptr, "register_mechanism: {} has no function that makes it", name);
  registry().push_back({name, help, std::move(make)});
}

std::string attention_parts() {
  std::string text;
  for (const Part& part : parts()) text += fmt::format("  {:<12} {}\n", part.name, part.help);
  for (const auto& part : detail::registered_parts())
    text += fmt::format("  {:<12} {}\n", part.name, part.help);
  return text;
}

AttentionSetting parse_attention(const std::string& name) {
  Setting setting;
  std::vector<std::string> seen;
  check(!name.ends_with('+'), "attention: wanted a part behind the last + of {}", name);
  std::stringstream pieces(name);
  for (std::string piece; std::getline(pieces, piece, '+');) {
    const size_t sign = piece.find('=');
    const std::string key = piece.substr(0, sign);
    check(std::find(seen.begin(), seen.end(), key) == seen.end(), "attention: {} stands twice in {}", key,
          name);
    seen.push_back(key);
    const Part* const part = find_part(key);
    if (part == nullptr && !is_registered(key)) fail_unknown(key, name);
    const bool assigned = sign != std::string::npos;
    const auto takes = part == nullptr ? Part::Takes::nothing : part->takes;
    check(takes != Part::Takes::nothing || !assigned, "attention: {} takes no number", key);
    check(takes != Part::Takes::number || assigned, "attention: {} wants a number, as {}=2", key, key);
    const std::string text = assigned ? piece.substr(sign + 1) : "";
    if (part == nullptr) {
      setting.extra.push_back(key);
    } else {
      part->apply(setting, takes == Part::Takes::number ? parse_number(key, text) : 0);
      if (takes == Part::Takes::keys && assigned) parse_keys(setting, key, text, name);
    }
  }
  check(!seen.empty(), "attention: the name is empty; wanted parts joined by +:\n{}", attention_parts());
  const auto both = [&](const char* x, const char* y) {
    return std::find(seen.begin(), seen.end(), x) != seen.end() &&
           std::find(seen.begin(), seen.end(), y) != seen.end();
  };
  check(!both("qk_norm", "qk_norm_rms"),
        "attention: qk_norm and qk_norm_rms exclude each other: one norm per query");
  check(!(both("cosine", "qk_norm") || both("cosine", "qk_norm_rms")),
        "attention: cosine normalizes queries and keys itself, so a qk_norm has no effect on it");
  check(!both("optimal", "entropy") && !both("optimal", "scale") && !both("entropy", "scale"),
        "attention: optimal, entropy and scale exclude each other: there is one scale");
  check(!both("cosine", "scale") || setting.keys == Setting::Keys::half_context,
        "attention: {} has a constant as its whole scale, so a number of keys has no effect on it", name);
  check(!both("cosine", "entropy"), "attention: entropy scales 1/√D, which cosine scores do not have");
  return setting;
}

}  // namespace vitrine::nn
