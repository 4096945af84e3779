// Options that describe themselves. A structure lists each of its options once, in list(). The list
// defines command-line flags, help, configuration files (nn/config_file.h), the settings in the
// report, and the values that a checkpoint stores and a resumed run compares.
//
//   struct SearchOptions {
//     int64_t trials = 20;
//     double width = 0.5;
//     void list(OptionList& o) {
//       o.group("Search");
//       o("trials", trials, "runs in all").at_least(1);
//       o("width", width, "share of the range").at_least(0).below(1);
//     }
//   };
#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/names.h"

namespace vitrine::nn {

/// What an option affects.
enum class Role {
  result,  ///< the trained model: a resumed run must have the same value
  /// The learning rates over steps, and when the run ends: a resumed run may change them, and
  /// reports a change of rates
  schedule,
  execution,  ///< how and where the run is computed: a resumed run may change it
  files       ///< what is read, written and printed: the report omits it
};

/// One option of a structure. Its functions refer to the member, which must outlive the option.
struct Option {
  enum class Kind { flag, value, list };

  std::string name = {};   ///< "key-heads": --key-heads 2 and key-heads = 2
  std::string alias = {};  ///< another name for flags and files
  std::string help = {};   ///< without the allowed values and the default, which are added
  std::string group = {};  ///< the heading in help and files
  Role role = Role::result;
  Kind kind = Kind::value;
  std::string type = {};  ///< "a whole number"; empty: any text is accepted
  double least = -std::numeric_limits<double>::infinity(), most = std::numeric_limits<double>::infinity();
  bool without_least = false, without_most = false;  ///< the bound itself is excluded
  std::vector<std::string> names = {};               ///< if not empty: the only allowed values
  std::string hint = {};                             ///< text at the end of the list of these names
  std::string default_text = {};                     ///< for help, of an option without a value
  /// The place where the value was read: "--layers", "run.ini, line 3: layers"; empty: not given.
  std::string given = {};
  std::function<std::vector<std::string>()> values = {};  ///< no elements: no value
  /// Returns false if the type does not match
  std::function<bool(const std::vector<std::string>&)> assign = {};
  /// Why the option does not apply; empty: the option applies.
  std::function<std::string()> why_not = [] { return std::string(); };

  Option& at_least(double x) { return least = x, *this; }
  Option& above(double x) { return least = x, without_least = true, *this; }
  Option& at_most(double x) { return most = x, *this; }
  Option& below(double x) { return most = x, without_most = true, *this; }
  Option& one_of(std::vector<std::string> all) { return names = std::move(all), *this; }
  Option& also(std::string other) { return alias = std::move(other), *this; }
  Option& decides(Role r) { return role = r, *this; }
  Option& by_default(std::string text) { return default_text = std::move(text), *this; }
  /// The option applies only if `reason` returns an empty text.
  Option& unless(std::function<std::string()> reason) { return why_not = std::move(reason), *this; }

  bool applies() const { return why_not().empty(); }
  std::string range() const;   ///< "at least 1"; "[0, 1)"; empty: all values
  std::string wanted() const;  ///< "a whole number, at least 1"; "layer or rms"; empty: any text
  /// Reads the value. A text that is not of the type, or not allowed, is an error that begins with
  /// `where`.
  void read(const std::vector<std::string>& texts, const std::string& where);
  /// Throws an error that begins with `where` if the value is not allowed.
  void check_value(const std::string& where) const;
};

/// Names and values of options, in the order of their list.
using OptionValues = std::vector<std::pair<std::string, std::string>>;

namespace detail {
// Conversion between values and text. parse() returns false if the text is not of the type.
bool parse(const std::string& text, bool& value);
bool parse(const std::string& text, int& value);
bool parse(const std::string& text, int64_t& value);
bool parse(const std::string& text, uint64_t& value);
bool parse(const std::string& text, double& value);
bool parse(const std::string& text, std::string& value);
template <class E>
requires std::is_enum_v<E>
bool parse(const std::string& text, E& value) {
  for (const auto& [name, known] : names_of(E{}).values)
    if (text == name) return value = known, true;
  return false;
}
template <class T>
std::string text_of(const T& value) {
  if constexpr (std::is_enum_v<T>)
    return name_of(value);
  else
    return fmt::format("{}", value);
}
template <class T>
std::string type_of() {
  if constexpr (std::is_same_v<T, int>) return "a whole number below 2^31";
  if constexpr (std::is_same_v<T, int64_t>) return "a whole number below 2^63";
  if constexpr (std::is_same_v<T, uint64_t>) return "a whole number from 0 to 2^64 - 1";
  if constexpr (std::is_same_v<T, double>) return "a finite number";
  return "";
}
}  // namespace detail

/// The options of one or several structures, filled by list(OptionList&). A reference to an option
/// is valid until the next option is added.
class OptionList {
 public:
  /// Begins a group: the heading of the following options. A title that was used before continues
  /// its group.
  void group(std::string title) { group_ = std::move(title); }

  /// Adds an option with one value: a number, a text, an enumeration with names (core/names.h), or
  /// a flag.
  template <class T>
  Option& operator()(const std::string& name, T& member, const std::string& help) {
    if constexpr (std::is_same_v<T, bool>) {
      return flag(name, member, true, help);
    } else {
      return add<T>(
          name, help, Option::Kind::value, [&member] { return std::vector{detail::text_of(member)}; },
          [&member](const auto& texts) { return detail::parse(texts.back(), member); });
    }
  }
  /// Adds an option that may have no value.
  template <class T>
  Option& operator()(const std::string& name, std::optional<T>& member, const std::string& help) {
    return add<T>(
        name, help, Option::Kind::value,
        [&member] { return member ? std::vector{detail::text_of(*member)} : std::vector<std::string>{}; },
        [&member](const auto& texts) { return detail::parse(texts.back(), member.emplace()); });
  }
  /// Adds an option with any number of values: --seeds 1,2,3.
  template <class T>
  Option& operator()(const std::string& name, std::vector<T>& member, const std::string& help) {
    return add<T>(
        name, help, Option::Kind::list,
        [&member] {
          std::vector<std::string> texts;
          for (const T& value : member) texts.push_back(detail::text_of(value));
          return texts;
        },
        [&member](const auto& texts) {
          member.resize(texts.size());
          bool good = true;
          for (size_t i = 0; i < texts.size(); ++i) good = good && detail::parse(texts[i], member[i]);
          return good;
        });
  }
  /// Adds a flag that gives the member one of its two values: --no-bias sets Bias::no.
  template <class T>
  Option& flag(const std::string& name, T& member, T when_given, const std::string& help) {
    return add<bool>(
        name, help, Option::Kind::flag,
        [&member, when_given] { return std::vector{detail::text_of(member == when_given)}; },
        [&member, when_given](const auto& texts) {
          bool on = false;
          if (!detail::parse(texts.back(), on)) return false;
          return member = on ? when_given : static_cast<T>(!static_cast<bool>(when_given)), true;
        });
  }

  void remove(const std::string& name);    ///< for an option that the program decides itself
  Option* find(const std::string& name);   ///< by name or alias; null if there is none
  std::vector<std::string> names() const;  ///< with aliases
  auto begin() { return options_.begin(); }
  auto end() { return options_.end(); }
  auto begin() const { return options_.begin(); }
  auto end() const { return options_.end(); }

  /// To be called when all options are read: a given option that does not apply is an error.
  void check_given() const;
  /// The values of the options with these roles that apply and have a value.
  OptionValues values(std::initializer_list<Role> roles) const;

 private:
  template <class T>
  Option& add(const std::string& name, const std::string& help, Option::Kind kind,
              std::function<std::vector<std::string>()> values,
              std::function<bool(const std::vector<std::string>&)> assign) {
    Option option{.name = name, .help = help, .group = group_, .kind = kind};
    option.type = kind == Option::Kind::flag ? "true or false" : detail::type_of<T>();
    if constexpr (std::is_enum_v<T>) {
      const EnumNames<T> table = names_of(T{});
      option.names = table.names();
      option.hint = table.hint;
    }
    option.values = std::move(values);
    option.assign = std::move(assign);
    return add(std::move(option));
  }
  Option& add(Option option);

  std::string group_;
  std::vector<Option> options_;
};

/// The options of a structure, which must outlive the list.
template <class S>
OptionList options_of(S& structure) {
  OptionList list;
  structure.list(list);
  return list;
}

/// The same. Options that are given in the list `given` count as given here, too.
template <class S>
OptionList options_of(S& structure, const OptionList& given) {
  OptionList list = options_of(structure);
  for (const Option& option : given)
    if (Option* const same = list.find(option.name)) same->given = option.given;
  return list;
}

/// The values of a structure's options.
template <class S>
OptionValues option_values(S structure, std::initializer_list<Role> roles) {
  return options_of(structure).values(roles);
}

/// Throws unless all values of the structure are allowed: "Gpt: layers is 0, wanted at least 1".
template <class S>
void check_options(S structure, const std::string& op) {
  for (const Option& option : options_of(structure))
    if (option.applies()) option.check_value(op + ": " + option.name);
}

}  // namespace vitrine::nn
