#include "nn/text/vocabulary_table.h"

#include "core/error.h"

namespace vitrine::nn {

VocabularyTable::VocabularyTable(std::vector<std::string> tokens) : tokens_(std::move(tokens)) {
  ids_.reserve(tokens_.size());
  for (const std::string& token : tokens_)
    check(ids_.emplace(token, static_cast<int32_t>(ids_.size())).second,
          "VocabularyTable: the token \"{}\" occurs twice", token);
}

int32_t VocabularyTable::add(const std::string& token) {
  const auto [place, is_unknown] = ids_.emplace(token, static_cast<int32_t>(tokens_.size()));
  if (is_unknown) tokens_.push_back(token);
  return place->second;
}

}  // namespace vitrine::nn
