// BLEU, the metric of machine translation.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/names.h"

namespace vitrine::nn {

/// How BLEU splits a text into tokens. `none`: at white space. `mteval_13a`: see tokens_13a.
enum class BleuTokens { none, mteval_13a };
inline EnumNames<BleuTokens> names_of(BleuTokens) {
  return {"tokenization of BLEU", {{"none", BleuTokens::none}, {"13a", BleuTokens::mteval_13a}}};
}

/// The precision of an order n without a match among `total` n-grams. `none`: 0, and so is BLEU.
/// `exp`: 1/(2ᵏ·total) for the k-th such order. `floor`: floor_value/total. Chen and Cherry 2014.
enum class BleuSmoothing { none, exp, floor };
inline EnumNames<BleuSmoothing> names_of(BleuSmoothing) {
  return {"smoothing of BLEU",
          {{"none", BleuSmoothing::none}, {"exp", BleuSmoothing::exp}, {"floor", BleuSmoothing::floor}}};
}

struct BleuOptions {
  BleuTokens tokens = BleuTokens::mteval_13a;
  BleuSmoothing smoothing = BleuSmoothing::exp;
  double floor_value = 0.1;  ///< in (0, 1]
};

struct Bleu {
  double score = 0;                       ///< in percent
  std::array<double, 4> precisions = {};  ///< of n-grams, n = 1 to 4, smoothed, in percent
  std::array<int64_t, 4> counts = {};     ///< n-grams of the hypotheses that a reference has
  std::array<int64_t, 4> totals = {};     ///< n-grams of the hypotheses
  double brevity_penalty = 0;             ///< e^(1 − r/h) if h < r, else 1
  int64_t hypothesis_length = 0;          ///< h, in tokens
  /// r: of the references nearest in length to their hypotheses (ties: the shorter)
  int64_t reference_length = 0;
};

/// BLEU of a corpus: brevity_penalty·(Π precisions)^¼. The references of segment i are
/// references[i], at least one. A hypothesis n-gram counts at most as often as in the reference
/// that has it most often. 0 if there is no match at all, or no n-gram of some order. With the
/// default options this is the score of sacrebleu. Errors: no segments; other numbers of
/// references. Papineni et al. 2002; Post 2018.
Bleu corpus_bleu(const std::vector<std::string>& hypotheses,
                 const std::vector<std::vector<std::string>>& references, const BleuOptions& options = {});

/// The tokens of the script mteval-v13a of NIST: XML escapes are resolved; punctuation is a token
/// of its own, except for a period or comma between digits; a dash is, after a digit.
std::vector<std::string> tokens_13a(const std::string& text);

}  // namespace vitrine::nn
