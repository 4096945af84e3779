#include "nn/data/json_lines.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "nn/data/lines.h"

namespace vitrine::nn {

using Json = nlohmann::json;

struct JsonRecord::State {
  std::string path;
  int64_t line;
  Json object;

  const Json& at(std::string_view field) const {
    const auto found = object.find(field);
    check(found != object.end(), "read_json_lines: {}, line {}: there is no field \"{}\"", path, line, field);
    return *found;
  }
  [[noreturn]] void refuse(std::string_view field, const Json& value, std::string_view wanted) const {
    fail("read_json_lines: {}, line {}: the field \"{}\" has a value of type {}, wanted {}", path, line,
         field, value.type_name(), wanted);
  }
  int64_t whole(std::string_view field, const Json& x, std::string_view wanted) const {
    if (!x.is_number_integer()) refuse(field, x, wanted);
    check(!x.is_number_unsigned() || x.get<uint64_t>() <= uint64_t{std::numeric_limits<int64_t>::max()},
          "read_json_lines: {}, line {}: the field \"{}\" has the number {}, wanted below 2^63", path, line,
          field, x.dump());
    return x.get<int64_t>();
  }
  const Json& list(std::string_view field, std::string_view wanted) const {
    const Json& values = at(field);
    if (!values.is_array()) refuse(field, values, wanted);
    return values;
  }
};

JsonRecord::JsonRecord(const std::string& line, const std::string& path, int64_t number) {
  Json object;
  try {
    object = Json::parse(line);
  } catch (const Json::parse_error& error) {
    fail("read_json_lines: {}, line {}, byte {}: this is not JSON: {}", path, number, error.byte,
         error.what());
  } catch (const Json::exception& error) {  // a number that a double does not hold
    fail("read_json_lines: {}, line {}: {}", path, number, error.what());
  }
  check(object.is_object(), "read_json_lines: {}, line {} is of type {}, wanted an object", path, number,
        object.type_name());
  state_ = std::make_shared<const State>(State{path, number, std::move(object)});
}

bool JsonRecord::has(std::string_view field) const { return state_->object.contains(field); }

std::string JsonRecord::text(std::string_view field) const {
  const Json& x = state_->at(field);
  if (!x.is_string()) state_->refuse(field, x, "a text");
  return x.get<std::string>();
}

int64_t JsonRecord::whole(std::string_view field) const {
  return state_->whole(field, state_->at(field), "a whole number");
}

double JsonRecord::number(std::string_view field) const {
  const Json& x = state_->at(field);
  if (!x.is_number()) state_->refuse(field, x, "a number");
  return x.get<double>();
}

bool JsonRecord::truth(std::string_view field) const {
  const Json& x = state_->at(field);
  if (!x.is_boolean()) state_->refuse(field, x, "true or false");
  return x.get<bool>();
}

std::vector<std::string> JsonRecord::texts(std::string_view field) const {
  constexpr std::string_view kWanted = "a list of texts";
  std::vector<std::string> result;
  for (const Json& x : state_->list(field, kWanted)) {
    if (!x.is_string()) state_->refuse(field, x, kWanted);
    result.push_back(x.get<std::string>());
  }
  return result;
}

std::vector<int64_t> JsonRecord::wholes(std::string_view field) const {
  constexpr std::string_view kWanted = "a list of whole numbers";
  std::vector<int64_t> result;
  for (const Json& x : state_->list(field, kWanted)) result.push_back(state_->whole(field, x, kWanted));
  return result;
}

Dataset<JsonRecord> read_json_lines(const std::string& path) {
  auto lines = read_lines(path, "read_json_lines");
  const int64_t size = lines.size();
  return {size, [lines = std::move(lines), path](int64_t i) { return JsonRecord(lines[i], path, i + 1); }};
}

}  // namespace vitrine::nn
