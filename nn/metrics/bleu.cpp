#include "nn/metrics/bleu.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "core/error.h"
#include "nn/metrics/words.h"

namespace vitrine::nn {
namespace {

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_no_digit(char c) { return !is_digit(c); }
bool is_stop(char c) { return c == '.' || c == ','; }
bool is_dash(char c) { return c == '-'; }

/// ASCII punctuation without the apostrophe, which belongs to a word, and without comma, dash and
/// period, which have rules of their own.
bool is_symbol(char c) {
  static const std::string kSymbols = "{|}~[\\]^_`!\"#$%&()*+:;<=>?@/";
  return kSymbols.find(c) != std::string::npos;
}

/// Writes spaces around each character x followed by y: before x, between them, and after y. A pair
/// begins after the pair before it.
std::string space_pairs(const std::string& text, bool (*is_x)(char), bool (*is_y)(char), const char* before,
                        const char* after) {
  std::string spaced;
  for (size_t i = 0; i < text.size(); ++i) {
    if (i + 1 == text.size() || !is_x(text[i]) || !is_y(text[i + 1])) {
      spaced += text[i];
      continue;
    }
    spaced += before + std::string{text[i], ' ', text[i + 1]} + after;
    ++i;
  }
  return spaced;
}

std::vector<std::string> tokens_of(const std::string& text, BleuTokens tokens) {
  return tokens == BleuTokens::none ? words_of(text) : tokens_13a(std::string(stripped(text)));
}

/// The n-grams that occur in a segment's references, each as often as in the reference that has it
/// most often.
Ngrams most_of(const std::vector<std::vector<std::string>>& references, int64_t order) {
  Ngrams most;
  for (const auto& reference : references)
    for (const auto& [sequence, count] : ngrams(reference, order)) {
      int64_t& known = most[sequence];
      known = std::max(known, count);
    }
  return most;
}

int64_t nearest_length(int64_t length, const std::vector<std::vector<std::string>>& references) {
  int64_t nearest = std::ssize(references.front());
  for (const auto& reference : references) {
    const int64_t other = std::ssize(reference);
    const int64_t distance = std::abs(other - length), least = std::abs(nearest - length);
    if (distance < least || (distance == least && other < nearest)) nearest = other;
  }
  return nearest;
}

void add_segment(Bleu& sums, const std::vector<std::string>& hypothesis,
                 const std::vector<std::vector<std::string>>& references) {
  sums.hypothesis_length += std::ssize(hypothesis);
  sums.reference_length += nearest_length(std::ssize(hypothesis), references);
  for (size_t n = 0; n < 4; ++n) {
    const auto order = static_cast<int64_t>(n) + 1;
    sums.totals[n] += std::max<int64_t>(0, std::ssize(hypothesis) - order + 1);
    sums.counts[n] += matches(ngrams(hypothesis, order), most_of(references, order));
  }
}

/// The precision of each order, up to the first order without n-grams.
void set_precisions(Bleu& bleu, const BleuOptions& o) {
  double smoothed = 1;
  for (size_t n = 0; n < 4 && bleu.totals[n] > 0; ++n) {
    double count = static_cast<double>(bleu.counts[n]);
    if (count == 0 && o.smoothing == BleuSmoothing::exp) count = smoothed /= 2;
    if (count == 0 && o.smoothing == BleuSmoothing::floor) count = o.floor_value;
    bleu.precisions[n] = 100 * count / static_cast<double>(bleu.totals[n]);
  }
}

}  // namespace

std::vector<std::string> tokens_13a(const std::string& text) {
  std::string line = text;
  replace_all(line, "<skipped>", "");
  replace_all(line, "-\n", "");
  replace_all(line, "\n", " ");
  for (const auto& [escape, character] :
       {std::pair{"&quot;", "\""}, {"&amp;", "&"}, {"&lt;", "<"}, {"&gt;", ">"}})
    replace_all(line, escape, character);
  std::string spaced = " ";
  for (const char c : line) spaced += is_symbol(c) ? std::string{' ', c, ' '} : std::string{c};
  spaced += ' ';
  spaced = space_pairs(spaced, is_no_digit, is_stop, "", " ");
  spaced = space_pairs(spaced, is_stop, is_no_digit, " ", "");
  return words_of(space_pairs(spaced, is_digit, is_dash, "", " "));
}

Bleu corpus_bleu(const std::vector<std::string>& hypotheses,
                 const std::vector<std::vector<std::string>>& references, const BleuOptions& o) {
  check_segments("corpus_bleu", hypotheses, references);
  check(o.floor_value > 0 && o.floor_value <= 1, "corpus_bleu: floor_value is {}, wanted (0, 1]",
        o.floor_value);
  Bleu bleu;
  for (size_t i = 0; i < hypotheses.size(); ++i) {
    std::vector<std::vector<std::string>> tokens;
    for (const std::string& reference : references[i]) tokens.push_back(tokens_of(reference, o.tokens));
    add_segment(bleu, tokens_of(hypotheses[i], o.tokens), tokens);
  }
  const auto h = static_cast<double>(bleu.hypothesis_length), r = static_cast<double>(bleu.reference_length);
  bleu.brevity_penalty = h >= r ? 1 : h > 0 ? std::exp(1 - r / h) : 0;
  if (bleu.counts == std::array<int64_t, 4>{}) return bleu;
  set_precisions(bleu, o);
  double log_mean = 0;
  for (const double precision : bleu.precisions) log_mean += std::log(precision) / 4;  // −∞ for 0
  bleu.score = bleu.brevity_penalty * std::exp(log_mean);
  return bleu;
}

}  // namespace vitrine::nn
