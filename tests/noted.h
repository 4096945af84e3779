// What a case sets, as its adapter sees it. Reads are noted: a setting or an input that no adapter
// reads would be left out of the test, and nobody would know.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "core/error.h"
#include "core/tensor.h"

namespace vitrine::test {

using Json = nlohmann::json;
using Tensors = std::map<std::string, Tensor>;

template <class Value>
class Noted {
 public:
  using Values = std::map<std::string, Value>;

  explicit Noted(Values values = {}) : values_(std::move(values)) {}

  /// Whether the case sets it; to ask is not to read.
  bool has(const std::string& name) const { return values_.count(name) > 0; }
  const Value& at(const std::string& name) const {
    check(has(name), "the case sets no {}", name);
    read_.insert(name);
    return values_.at(name);
  }
  /// The value, or an empty one where the case sets none.
  Value get(const std::string& name) const { return has(name) ? at(name) : Value(); }
  bool was_read(const std::string& name) const { return read_.count(name) > 0; }
  /// An error that names what nobody has read.
  void check_all_read(const std::string& op) const {
    for (const auto& entry : values_)
      check(read_.count(entry.first) > 0, "the case sets {}, which the adapter of {} does not read",
            entry.first, op);
  }

 private:
  Values values_;
  mutable std::set<std::string> read_;
};

/// Tensors by name.
using Inputs = Noted<Tensor>;

/// Numbers, flags and words by name. What is null is not set.
class Settings : public Noted<Json> {
 public:
  Settings() = default;
  explicit Settings(const Json& object) : Noted(set_ones(object)) {}

  template <class T>
  T value(const std::string& name, T otherwise) const {
    return has(name) ? at(name).get<T>() : otherwise;
  }

 private:
  static Values set_ones(const Json& object) {
    Values values;
    for (const auto& [name, value] : object.items())
      if (!value.is_null()) values[name] = value;
    return values;
  }
};

}  // namespace vitrine::test
