#include "nn/text/extended_vocabulary.h"

#include "core/error.h"

namespace vitrine::nn {

ExtendedVocabulary::ExtendedVocabulary(const VocabularyTable& table, const std::vector<std::string>& text,
                                       int64_t most, const std::string& unknown)
    : table_(table), unknown_(table.find(unknown).value_or(-1)) {
  check(unknown_ >= 0, "ExtendedVocabulary: the table has no word {}", unknown);
  for (const std::string& word : text)
    if (!table.find(word)) own_.add(word);
  check(own_.size() <= most,
        "ExtendedVocabulary: {} words of the text are not in the table, wanted at most {}", own_.size(),
        most);
}

std::vector<int64_t> ExtendedVocabulary::ids(const std::vector<std::string>& words) const {
  std::vector<int64_t> result;
  for (const std::string& word : words) {
    if (const auto known = table_.find(word))
      result.push_back(*known);
    else if (const auto own = own_.find(word))
      result.push_back(table_.size() + *own);
    else
      result.push_back(unknown_);
  }
  return result;
}

const std::string& ExtendedVocabulary::word(int64_t id) const {
  check(id >= 0 && id < table_.size() + own_.size(), "ExtendedVocabulary: there is no word {} among {}", id,
        table_.size() + own_.size());
  return id < table_.size() ? table_[id] : own_[id - table_.size()];
}

}  // namespace vitrine::nn
