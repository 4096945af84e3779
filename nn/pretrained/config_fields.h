// The members of a config.json, as they are read and written.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/names.h"
#include "nn/text/json_reader.h"

namespace vitrine::nn {

/// A list of the members of a config.json, each with the option that it sets. One list reads the
/// file and writes it: a reader sets the options, and a writer collects their values. An error of a
/// reader begins with the place in the file.
class ConfigFields {
 public:
  explicit ConfigFields(const JsonReader& file) : file_(&file) {}                 ///< reads
  explicit ConfigFields(nlohmann::ordered_json& written) : written_(&written) {}  ///< writes
  bool reads() const { return file_ != nullptr; }

  /// A size, at least 1, which the file must have.
  void size(const char* key, int64_t& value);
  /// A size that is `otherwise` where the file does not have it.
  void size(const char* key, int64_t& value, int64_t otherwise);
  void number(const char* key, double& value, double otherwise);
  void flag(const char* key, bool& value, bool otherwise);
  /// One of several names, of which each is a value of ours.
  template <class E>
  void choice(const char* key, E& value, const std::vector<std::pair<const char*, E>>& all,
              const char* otherwise) {
    std::vector<std::string> names;
    std::string chosen;
    for (const auto& [name, known] : all) {
      names.emplace_back(name);
      if (known == value && chosen.empty()) chosen = name;
    }
    const std::string name = name_in(key, names, chosen, otherwise);
    for (const auto& [known, its_value] : all)
      if (name == known) value = its_value;
  }
  /// Texts that classes are called by, {"0": "LABEL_0", …}: their number.
  void labels(int64_t& classes);
  /// A member that must have this value, or be missing if that means the same. Another value is an
  /// error: it would change the results in a way that is not supported.
  void only(const char* key, const nlohmann::json& value);
  /// A feature that no kind has: the member must be missing, null, false or an empty text.
  void absent(const char* key);
  /// A member that has no effect on the results of a model in evaluation mode. It is written, and
  /// ignored when read.
  void unused(const char* key, const nlohmann::json& value);
  /// An object with members of its own; a reader skips an object that is missing.
  void object(const char* key, const std::function<void(ConfigFields&)>& list);
  /// A contradiction in what was read: an error.
  [[noreturn]] void fail(const std::string& reason) const;

 private:
  std::string name_in(const char* key, const std::vector<std::string>& names, const std::string& chosen,
                      const char* otherwise);

  const JsonReader* file_ = nullptr;
  nlohmann::ordered_json* written_ = nullptr;
};

}  // namespace vitrine::nn
