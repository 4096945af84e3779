// chrF, a metric of translation from n-grams of characters, which needs no tokens.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace vitrine::nn {

struct ChrfOptions {
  int64_t character_order = 6;  ///< ≥ 1: n-grams of 1 to so many characters
  int64_t word_order = 0;       ///< ≥ 0: and of up to so many words; 2: chrF++
  double beta = 2;              ///< > 0: recall weighs β² times as much as precision
};

/// chrF of a corpus in percent: (1 + β²)·P·R/(β²·P + R). P and R are the precision and the recall
/// of n-grams, averaged over the orders that occur in hypotheses and in references. Counts are
/// summed over the corpus; of several references of a segment, references[i], the one with the
/// highest chrF counts. A punctuation mark at the end of a word, or else at its beginning, is a
/// word of its own. 0 if nothing matches. This is the score of sacrebleu. Errors: no segments;
/// other numbers of references; orders out of range. Popović 2015 and 2017.
double corpus_chrf(const std::vector<std::string>& hypotheses,
                   const std::vector<std::vector<std::string>>& references, const ChrfOptions& options = {});

}  // namespace vitrine::nn
