// Word and character error rate, the metrics of speech recognition.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace vitrine::nn {

/// The least number of insertions, deletions and replacements of items that turn the hypotheses
/// into the references, and the number of items of the references.
struct ErrorRate {
  int64_t edits = 0, length = 0;
  /// edits/length; it may be above 1. For references without items it is the number of edits.
  double rate() const;
};

/// The words that differ; words are separated by white space. Errors: other numbers of hypotheses
/// and references, or none. This is the rate of jiwer, for texts whose words are separated by
/// spaces. Levenshtein 1966.
ErrorRate word_error_rate(const std::vector<std::string>& hypotheses,
                          const std::vector<std::string>& references);

/// The characters (code points) that differ, with the white space between words, and without that
/// at the beginning and the end. This is the rate of jiwer.
ErrorRate character_error_rate(const std::vector<std::string>& hypotheses,
                               const std::vector<std::string>& references);

}  // namespace vitrine::nn
