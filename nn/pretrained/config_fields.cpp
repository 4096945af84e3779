#include "nn/pretrained/config_fields.h"

#include <algorithm>

namespace vitrine::nn {

void ConfigFields::size(const char* key, int64_t& value) {
  if (!reads()) {
    (*written_)[key] = value;
    return;
  }
  const JsonReader member = (*file_)[key];
  value = member.number();
  if (value < 1) member.fail("is 0, wanted at least 1");
}

void ConfigFields::size(const char* key, int64_t& value, int64_t otherwise) {
  if (!reads() || file_->has(key)) return size(key, value);
  value = otherwise;
}

void ConfigFields::number(const char* key, double& value, double otherwise) {
  if (!reads()) {
    (*written_)[key] = value;
    return;
  }
  value = file_->has(key) ? (*file_)[key].real() : otherwise;
  if (!(value >= 0)) (*file_)[key].fail(fmt::format("is {}, wanted at least 0", value));
}

void ConfigFields::flag(const char* key, bool& value, bool otherwise) {
  if (reads())
    value = file_->flag(key, otherwise);
  else
    (*written_)[key] = value;
}

std::string ConfigFields::name_in(const char* key, const std::vector<std::string>& names,
                                  const std::string& chosen, const char* otherwise) {
  if (!reads()) {
    // A value without a name is another one in the file, which save_pretrained then refuses.
    (*written_)[key] = chosen.empty() ? otherwise : chosen;
    return chosen;
  }
  const std::string name = file_->text(key, otherwise);
  if (std::find(names.begin(), names.end(), name) == names.end())
    (*file_)[key].fail("is " + name + ", wanted " + joined_by_or(names));
  return name;
}

void ConfigFields::labels(int64_t& classes) {
  if (reads()) {
    classes = 2;  // where the file has no names
    if (file_->has("num_labels")) (*this).size("num_labels", classes);
    if (file_->has("id2label")) {
      const JsonReader names = (*file_)["id2label"];
      if (!names.is_object() || names.count() == 0) names.fail("has no labels");
      classes = static_cast<int64_t>(names.count());
    }
    return;
  }
  if (classes == 0) return;
  nlohmann::ordered_json names, ids;
  for (int64_t i = 0; i < classes; ++i) {
    const std::string label = fmt::format("LABEL_{}", i);
    names[std::to_string(i)] = label;
    ids[label] = i;
  }
  (*written_)["id2label"] = names;
  (*written_)["label2id"] = ids;
}

void ConfigFields::only(const char* key, const nlohmann::json& value) {
  if (!reads())
    (*written_)[key] = value;
  else if (file_->has(key) && !(*file_)[key].is(value))
    (*file_)[key].fail("is not supported, wanted " + value.dump());
}

void ConfigFields::absent(const char* key) {
  if (reads()) file_->not_set(key);
}

void ConfigFields::unused(const char* key, const nlohmann::json& value) {
  if (!reads()) (*written_)[key] = value;
}

void ConfigFields::object(const char* key, const std::function<void(ConfigFields&)>& list) {
  if (!reads()) {
    nlohmann::ordered_json members;
    ConfigFields fields(members);
    list(fields);
    (*written_)[key] = members;
  } else if (file_->has(key)) {
    const JsonReader member = (*file_)[key];
    ConfigFields fields(member);
    list(fields);
  }
}

void ConfigFields::fail(const std::string& reason) const {
  if (!reads()) vitrine::fail("save_pretrained: the model {}", reason);
  file_->fail(reason);
}

}  // namespace vitrine::nn
