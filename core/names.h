// Names that users type: the values of an enumeration by name, and suggestions for misspelt names.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"

namespace vitrine {

/// The Levenshtein distance: the least number of insertions, deletions and replacements of a
/// character that turn one text into the other.
size_t edit_distance(std::string_view x, std::string_view y);

/// "; did you mean laser?" with the known name nearest to `name`. Empty if the nearest name is more
/// than max(2, a third of the characters of `name`) edits away.
std::string did_you_mean(std::string_view name, const std::vector<std::string>& known);

/// "relu, gelu or silu".
std::string joined_by_or(const std::vector<std::string>& names);

/// The names of an enumeration's values. An enumeration that is read by name has a function
/// `EnumNames<E> names_of(E)` in its namespace.
template <class E>
struct EnumNames {
  const char* kind;  ///< the word for a value in errors, such as "activation"
  std::vector<std::pair<const char*, E>> values;
  const char* hint = "";  ///< the end of the error about an unknown name

  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& [name, value] : values) all.emplace_back(name);
    return all;
  }
};

/// The value with this name; an unknown name is an error that lists the known ones.
template <class E>
E value_named(std::string_view name) {
  const EnumNames<E> table = names_of(E{});
  for (const auto& [known, value] : table.values)
    if (name == known) return value;
  fail("there is no {} {}: wanted {}{}{}", table.kind, name, joined_by_or(table.names()), table.hint,
       did_you_mean(name, table.names()));
}

/// The name of a value; a value that is not in the table is an error.
template <class E>
std::string name_of(E value) {
  const EnumNames<E> table = names_of(value);
  for (const auto& [name, known] : table.values)
    if (value == known) return name;
  fail("the {} with number {} has no name", table.kind, static_cast<int64_t>(value));
}

}  // namespace vitrine
