// Reads JSON files with errors that name the place.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace vitrine::nn {

/// A value of a JSON file, and its place: "tokenizer.json: /model/merges/3". Each read checks the
/// type, and an error begins with the place.
class JsonReader {
 public:
  /// Broken JSON is an error with its line and column, which `file` begins.
  JsonReader(const std::string& json, const std::string& file);

  JsonReader operator[](const std::string& key) const;  ///< a member; a missing one is an error
  bool has(const std::string& key) const;               ///< whether it is there and not null
  void for_each_element(const std::function<void(size_t index, const JsonReader& value)>& f) const;
  void for_each_member(const std::function<void(const std::string& key, const JsonReader& value)>& f) const;
  size_t count() const;  ///< elements or members

  bool is_list() const;
  bool is_object() const;
  bool is_text() const;
  bool is(const nlohmann::json& value) const;  ///< equal; 1 is equal to 1.0
  std::string text() const;
  bool flag() const;
  int64_t number() const;  ///< a whole number in [0, 2^31)
  double real() const;     ///< a number with or without a fraction
  /// The member, or `otherwise` where it is missing or null.
  bool flag(const std::string& key, bool otherwise) const;
  std::string text(const std::string& key, const std::string& otherwise) const;

  /// An error if the object has another member than these: its meaning would be ignored.
  void only(std::initializer_list<const char*> keys) const;
  /// An error unless the member is missing, null, false or an empty text: a feature that is not
  /// supported.
  void not_set(const std::string& key) const;
  [[noreturn]] void fail(const std::string& reason) const;

 private:
  JsonReader(std::shared_ptr<const nlohmann::json> root, const nlohmann::json* value, std::string file,
             std::string pointer);
  const nlohmann::json& object() const;
  JsonReader child(const std::string& key, const nlohmann::json& value) const;

  std::shared_ptr<const nlohmann::json> root_;
  const nlohmann::json* value_;
  std::string file_, pointer_;
};

}  // namespace vitrine::nn
