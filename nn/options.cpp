#include "nn/options.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace vitrine::nn {
namespace {

template <class T>
bool parse_number(std::string_view text, T& value) {
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && rest == text.data() + text.size();
}

}  // namespace

namespace detail {
bool parse(const std::string& text, bool& value) {
  value = text == "true";
  return value || text == "false";
}
bool parse(const std::string& text, int& value) { return parse_number(text, value); }
bool parse(const std::string& text, int64_t& value) { return parse_number(text, value); }
bool parse(const std::string& text, uint64_t& value) { return parse_number(text, value); }
bool parse(const std::string& text, double& value) {
  return parse_number(text, value) && std::isfinite(value);
}
bool parse(const std::string& text, std::string& value) { return value = text, true; }
}  // namespace detail

std::string Option::range() const {
  const bool from = std::isfinite(least), to = std::isfinite(most);
  if (from && to)
    return fmt::format("{}{}, {}{}", without_least ? '(' : '[', least, most, without_most ? ')' : ']');
  if (from) return fmt::format("{} {}", without_least ? "above" : "at least", least);
  return to ? fmt::format("{} {}", without_most ? "below" : "at most", most) : "";
}

std::string Option::wanted() const {
  if (!names.empty()) return joined_by_or(names) + hint;
  return type.empty() || range().empty() ? type + range() : type + ", " + range();
}

void Option::read(const std::vector<std::string>& texts, const std::string& where) {
  const bool known = names.empty() || std::find(names.begin(), names.end(), texts.back()) != names.end();
  if (!known || !assign(texts))
    fail("{} is {}, wanted {}{}", where, fmt::join(texts, ","), wanted(), did_you_mean(texts.back(), names));
  check_value(where);
  given = where;
}

void Option::check_value(const std::string& where) const {
  if (range().empty()) return;
  for (const std::string& text : values()) {
    double value = 0;
    check(parse_number(text, value), "{} is {}, wanted a number", where, text);
    const bool inside =
        (without_least ? value > least : value >= least) && (without_most ? value < most : value <= most);
    check(inside, "{} is {}, wanted {}", where, text, range());
  }
}

Option& OptionList::add(Option option) {
  check(find(option.name) == nullptr, "OptionList: {} is listed twice", option.name);
  const auto last = std::find_if(options_.rbegin(), options_.rend(),
                                 [&](const Option& other) { return other.group == option.group; });
  return *options_.insert(last == options_.rend() ? options_.end() : last.base(), std::move(option));
}

void OptionList::remove(const std::string& name) {
  const size_t removed = std::erase_if(options_, [&](const Option& option) { return option.name == name; });
  check(removed == 1, "OptionList: there is no option {}", name);
}

Option* OptionList::find(const std::string& name) {
  for (Option& option : options_)
    if (option.name == name || (option.alias == name && !name.empty())) return &option;
  return nullptr;
}

std::vector<std::string> OptionList::names() const {
  std::vector<std::string> all;
  for (const Option& option : options_) {
    all.push_back(option.name);
    if (!option.alias.empty()) all.push_back(option.alias);
  }
  return all;
}

void OptionList::check_given() const {
  for (const Option& option : options_)
    check(option.given.empty() || option.applies(), "{}: {}", option.given, option.why_not());
}

OptionValues OptionList::values(std::initializer_list<Role> roles) const {
  OptionValues all;
  for (const Option& option : options_) {
    if (std::find(roles.begin(), roles.end(), option.role) == roles.end() || !option.applies()) continue;
    const std::string text = fmt::format("{}", fmt::join(option.values(), ", "));
    if (!text.empty()) all.emplace_back(option.name, text);
  }
  return all;
}

}  // namespace vitrine::nn
