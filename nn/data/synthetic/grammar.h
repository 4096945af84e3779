// Sentences of a small grammar, and tasks about them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nn/data/synthetic/part.h"

namespace vitrine::nn::synthetic {

/// Sentences such as "the old dogs near the river see a cat", for masked language modelling:
///   sentence → phrase verb phrase,  phrase → article [adjective] noun [near phrase]
/// The verb agrees in number with the subject, which may be far from it. So a masked verb, noun or
/// article can be recovered from the rest to a known degree.
Dataset<std::vector<std::string>> grammar_sentences(Part part, int64_t size, uint64_t seed = 0);

/// One sentence or two, and a number: a class, or a similarity.
struct SentenceTask {
  std::string first, second;
  double label = 0;
};

/// 1: the second sentence follows from the first, as at most an adjective or a place is left out;
/// 0: then a noun or the verb is replaced, too.
Dataset<SentenceTask> grammar_entailment(Part part, int64_t size, uint64_t seed = 0);
/// The similarity from 0 to 5: how many of subject, its adjective, verb, object and its adjective
/// the two sentences have in common.
Dataset<SentenceTask> grammar_similarity(Part part, int64_t size, uint64_t seed = 0);
/// One sentence. 1: it is of the grammar; 0: its verb does not agree, or two neighbouring words are
/// exchanged.
Dataset<SentenceTask> grammar_acceptability(Part part, int64_t size, uint64_t seed = 0);
/// A question "what do the dogs see ?" and a sentence. 1: the sentence answers it; 0: its subject
/// or its verb is another one.
Dataset<SentenceTask> grammar_questions(Part part, int64_t size, uint64_t seed = 0);

/// Two sentences of the same meaning: active and passive, and words of the same meaning.
struct Paraphrase {
  std::string first, second;
};
Dataset<Paraphrase> paraphrases(Part part, int64_t size, uint64_t seed = 0);

}  // namespace vitrine::nn::synthetic
