// A vocabulary with the words of one text in addition, for a model that copies words.
#pragma once

#include <string>
#include <vector>

#include "nn/text/vocabulary_table.h"

namespace vitrine::nn {

/// The V words of a table, and the words of one text that the table does not have: these have the
/// ids V, V + 1, … in the order in which they come first. See, Liu, Manning 2017.
class ExtendedVocabulary {
 public:
  /// Refers to the table. A word that has no id gets that of `unknown`. Errors: an unknown word
  /// that the table does not have; a text with more than `most` other words.
  ExtendedVocabulary(const VocabularyTable& table, const std::vector<std::string>& text, int64_t most,
                     const std::string& unknown = "<unk>");
  std::vector<int64_t> ids(const std::vector<std::string>& words) const;
  const std::string& word(int64_t id) const;  ///< an id that no word has is an error
  int64_t unknown() const { return unknown_; }

 private:
  const VocabularyTable& table_;
  int64_t unknown_;
  VocabularyTable own_;
};

}  // namespace vitrine::nn
