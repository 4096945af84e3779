#include "nn/metrics/chrf.h"

#include <cmath>
#include <cstring>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "nn/metrics/words.h"
#include "nn/text/characters.h"

namespace vitrine::nn {
namespace {

/// Numbers of n-grams of one order.
struct Counts {
  int64_t hypothesis = 0, reference = 0, both = 0;
};

bool is_punctuation(std::string_view character) {
  return character.size() == 1 && std::strchr("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", character[0]) != nullptr;
}

std::vector<std::string> visible_characters(const std::string& text) {
  std::vector<std::string> all;
  for (const std::string& character : split_characters(text))
    if (!is_white_space(character)) all.push_back(character);
  return all;
}

std::vector<std::string> words_and_punctuation(const std::string& text) {
  std::vector<std::string> all;
  for (const std::string& word : words_of(text)) {
    const std::vector<std::string> characters = split_characters(word);
    const bool at_end = is_punctuation(characters.back()), at_begin = is_punctuation(characters.front());
    if (characters.size() == 1 || (!at_end && !at_begin)) {
      all.push_back(word);
      continue;
    }
    const size_t cut = at_end ? word.size() - 1 : 1;
    all.push_back(word.substr(0, cut));
    all.push_back(word.substr(cut));
  }
  return all;
}

/// The n-grams of all orders: of characters, then of words.
std::vector<Ngrams> all_ngrams(const std::string& text, const ChrfOptions& o) {
  const auto characters = visible_characters(text), words = words_and_punctuation(text);
  std::vector<Ngrams> all;
  for (int64_t n = 1; n <= o.character_order; ++n) all.push_back(ngrams(characters, n));
  for (int64_t n = 1; n <= o.word_order; ++n) all.push_back(ngrams(words, n));
  return all;
}

int64_t total(const Ngrams& counts) {
  int64_t sum = 0;
  for (const auto& entry : counts) sum += entry.second;
  return sum;
}

/// Without a reference n-gram of an order, those of the hypothesis do not count.
std::vector<Counts> compare(const std::vector<Ngrams>& hypothesis, const std::vector<Ngrams>& reference) {
  std::vector<Counts> all;
  for (size_t n = 0; n < hypothesis.size(); ++n)
    all.push_back({reference[n].empty() ? 0 : total(hypothesis[n]), total(reference[n]),
                   matches(hypothesis[n], reference[n])});
  return all;
}

double f_score(const std::vector<Counts>& counts, double beta) {
  double precision = 0, recall = 0, orders = 0;
  for (const Counts& c : counts) {
    if (c.hypothesis == 0 || c.reference == 0) continue;
    precision += static_cast<double>(c.both) / static_cast<double>(c.hypothesis);
    recall += static_cast<double>(c.both) / static_cast<double>(c.reference);
    ++orders;
  }
  if (precision + recall == 0) return 0;
  precision /= orders, recall /= orders;
  const double factor = beta * beta;
  return 100 * (1 + factor) * precision * recall / (factor * precision + recall);
}

}  // namespace

double corpus_chrf(const std::vector<std::string>& hypotheses,
                   const std::vector<std::vector<std::string>>& references, const ChrfOptions& o) {
  check_segments("corpus_chrf", hypotheses, references);
  check(o.character_order >= 1 && o.word_order >= 0 && o.beta > 0 && std::isfinite(o.beta),
        "corpus_chrf: wanted character_order ≥ 1, word_order ≥ 0 and a finite beta > 0, got {}, {} and {}",
        o.character_order, o.word_order, o.beta);
  std::vector<Counts> sums(static_cast<size_t>(o.character_order + o.word_order));
  for (size_t i = 0; i < hypotheses.size(); ++i) {
    const std::vector<Ngrams> hypothesis = all_ngrams(hypotheses[i], o);
    std::vector<Counts> best;
    double highest = -1;
    for (const std::string& reference : references[i]) {
      std::vector<Counts> counts = compare(hypothesis, all_ngrams(reference, o));
      const double score = f_score(counts, o.beta);
      if (score > highest) highest = score, best = std::move(counts);
    }
    for (size_t n = 0; n < sums.size(); ++n) {
      sums[n].hypothesis += best[n].hypothesis;
      sums[n].reference += best[n].reference;
      sums[n].both += best[n].both;
    }
  }
  return f_score(sums, o.beta);
}

}  // namespace vitrine::nn
