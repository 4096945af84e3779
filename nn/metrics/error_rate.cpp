#include "nn/metrics/error_rate.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "nn/metrics/words.h"
#include "nn/text/characters.h"

namespace vitrine::nn {
namespace {

/// The Levenshtein distance. Row i of its table has the distances of the first i items of x to the
/// first 0, 1, … items of y; one row is stored.
template <class Item>
int64_t edits_between(const std::vector<Item>& x, const std::vector<Item>& y) {
  std::vector<int64_t> row(y.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 0; i < x.size(); ++i) {
    int64_t diagonal = row[0]++;
    for (size_t j = 0; j < y.size(); ++j) {
      const int64_t replaced = diagonal + (x[i] == y[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

template <class ItemsOf>
ErrorRate error_rate(const char* op, const std::vector<std::string>& hypotheses,
                     const std::vector<std::string>& references, ItemsOf items_of) {
  check(!hypotheses.empty() && hypotheses.size() == references.size(),
        "{}: there are {} hypotheses and {} references, wanted the same number, at least 1", op,
        hypotheses.size(), references.size());
  ErrorRate sum;
  for (size_t i = 0; i < hypotheses.size(); ++i) {
    const auto reference = items_of(references[i]);
    sum.edits += edits_between(items_of(hypotheses[i]), reference);
    sum.length += std::ssize(reference);
  }
  return sum;
}

}  // namespace

double ErrorRate::rate() const {
  return static_cast<double>(edits) / static_cast<double>(std::max<int64_t>(1, length));
}

ErrorRate word_error_rate(const std::vector<std::string>& hypotheses,
                          const std::vector<std::string>& references) {
  return error_rate("word_error_rate", hypotheses, references,
                    [](const std::string& text) { return words_of(text); });
}

ErrorRate character_error_rate(const std::vector<std::string>& hypotheses,
                               const std::vector<std::string>& references) {
  return error_rate("character_error_rate", hypotheses, references,
                    [](const std::string& text) { return split_characters(stripped(text)); });
}

}  // namespace vitrine::nn
