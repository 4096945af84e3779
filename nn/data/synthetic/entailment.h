// Does a sentence about coloured objects follow from another one?
#pragma once

#include <cstdint>
#include <string>

#include "nn/data/synthetic/part.h"

namespace vitrine::nn::synthetic {

/// What the premise says of the hypothesis.
enum class Relation : int64_t { entailment, neutral, contradiction };

struct Entailment {
  std::string premise, hypothesis;
  Relation relation = Relation::neutral;
};

/// Premise: "a girl carries a blue bag and an umbrella". Three of four hypotheses name a colour.
/// "the bag is blue": entailment. "the bag is red": contradiction. "the umbrella is blue", of which
/// the premise says no colour: neutral. Such a hypothesis alone decides nothing: the colour of its
/// object has to be found in the premise, next to another colour. The others are "a child carries a
/// bag", "nobody carries a bag" and "the bag is heavy". The three relations are equally frequent.
Dataset<Entailment> entailment(Part part, int64_t size, uint64_t seed = 0);

}  // namespace vitrine::nn::synthetic
