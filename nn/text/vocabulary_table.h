// The tokens of a vocabulary, by id and by text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace vitrine::nn {

/// Tokens with the ids 0 … size − 1.
class VocabularyTable {
 public:
  VocabularyTable() = default;
  /// A text that occurs twice is an error.
  explicit VocabularyTable(std::vector<std::string> tokens);

  int64_t size() const { return static_cast<int64_t>(tokens_.size()); }
  const std::string& operator[](int64_t id) const { return tokens_[static_cast<size_t>(id)]; }
  const std::vector<std::string>& tokens() const { return tokens_; }
  std::optional<int32_t> find(std::string_view token) const {
    const auto found = ids_.find(token);
    return found == ids_.end() ? std::nullopt : std::optional<int32_t>(found->second);
  }
  /// Adds a token, or finds the equal one that is there. Returns its id.
  int32_t add(const std::string& token);

 private:
  struct Hash {
    using is_transparent = void;  // find() takes a string_view without a copy
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  std::vector<std::string> tokens_;
  std::unordered_map<std::string, int32_t, Hash, std::equal_to<>> ids_;
};

}  // namespace vitrine::nn
