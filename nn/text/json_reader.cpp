#include "nn/text/json_reader.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"

namespace vitrine::nn {
namespace {

/// A value for an error: the beginning of a long one.
std::string shown(const nlohmann::json& value) {
  constexpr size_t kLongest = 60;
  if (value.is_array()) return "a list";
  if (value.is_object()) return "an object";
  const std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  return text.size() <= kLongest ? text : text.substr(0, kLongest) + "…";
}

}  // namespace

JsonReader::JsonReader(const std::string& json, const std::string& file) : file_(file) {
  try {
    root_ = std::make_shared<const nlohmann::json>(nlohmann::json::parse(json));
  } catch (const nlohmann::json::exception& error) {
    // "[json.exception.parse_error.101] parse error at line 2, column 5: …"
    const std::string message = error.what();
    const size_t name = message.find("] ");
    vitrine::fail("{} is not valid JSON: {}", file,
                  name == message.npos ? message : message.substr(name + 2));
  }
  value_ = root_.get();
}

JsonReader::JsonReader(std::shared_ptr<const nlohmann::json> root, const nlohmann::json* value,
                       std::string file, std::string pointer)
    : root_(std::move(root)), value_(value), file_(std::move(file)), pointer_(std::move(pointer)) {}

void JsonReader::fail(const std::string& reason) const {
  vitrine::fail("{}: {} {}", file_, pointer_.empty() ? "the file" : pointer_, reason);
}

const nlohmann::json& JsonReader::object() const {
  if (!value_->is_object()) fail("is " + shown(*value_) + ", wanted an object");
  return *value_;
}

JsonReader JsonReader::child(const std::string& key, const nlohmann::json& value) const {
  std::string pointer = pointer_ + "/";
  // The two marks that a JSON pointer escapes (RFC 6901)
  for (const char c : key) pointer += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return {root_, &value, file_, std::move(pointer)};
}

JsonReader JsonReader::operator[](const std::string& key) const {
  const auto found = object().find(key);
  if (found == value_->end()) fail("has no member " + key);
  return child(key, *found);
}

bool JsonReader::has(const std::string& key) const {
  const auto found = object().find(key);
  return found != value_->end() && !found->is_null();
}

void JsonReader::for_each_element(const std::function<void(size_t, const JsonReader&)>& f) const {
  if (!value_->is_array()) fail("is " + shown(*value_) + ", wanted a list");
  for (size_t i = 0; i < value_->size(); ++i) f(i, child(std::to_string(i), (*value_)[i]));
}

void JsonReader::for_each_member(const std::function<void(const std::string&, const JsonReader&)>& f) const {
  for (const auto& [key, value] : object().items()) f(key, child(key, value));
}

size_t JsonReader::count() const { return value_->size(); }
bool JsonReader::is_list() const { return value_->is_array(); }
bool JsonReader::is_object() const { return value_->is_object(); }
bool JsonReader::is(const nlohmann::json& value) const { return *value_ == value; }
bool JsonReader::is_text() const { return value_->is_string(); }

std::string JsonReader::text() const {
  if (!value_->is_string()) fail("is " + shown(*value_) + ", wanted a text");
  return value_->get<std::string>();
}

bool JsonReader::flag() const {
  if (!value_->is_boolean()) fail("is " + shown(*value_) + ", wanted true or false");
  return value_->get<bool>();
}

int64_t JsonReader::number() const {
  if (!value_->is_number_unsigned() || value_->get<uint64_t>() > INT32_MAX)
    fail("is " + shown(*value_) + ", wanted a whole number from 0 to 2^31 - 1");
  return value_->get<int64_t>();
}

double JsonReader::real() const {
  if (!value_->is_number()) fail("is " + shown(*value_) + ", wanted a number");
  return value_->get<double>();
}

bool JsonReader::flag(const std::string& key, bool otherwise) const {
  return has(key) ? (*this)[key].flag() : otherwise;
}

std::string JsonReader::text(const std::string& key, const std::string& otherwise) const {
  return has(key) ? (*this)[key].text() : otherwise;
}

void JsonReader::only(std::initializer_list<const char*> keys) const {
  for (const auto& member : object().items())
    if (std::find(keys.begin(), keys.end(), member.key()) == keys.end())
      fail("has the member " + member.key() + ", which is not supported");
}

void JsonReader::not_set(const std::string& key) const {
  if (!has(key)) return;
  const nlohmann::json& value = object()[key];
  if (value == false || value == "") return;
  (*this)[key].fail("is " + shown(value) + ", which is not supported");
}

}  // namespace vitrine::nn
