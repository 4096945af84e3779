// Short articles and their headlines, with names that training has never shown.
#pragma once

#include <string>
#include <vector>

#include "nn/data/synthetic/part.h"

namespace vitrine::nn::synthetic {

struct Headline {
  std::vector<std::string> article, headline;
};

/// "on monday , the mayor of vonta , selmu kirad , opened a new library ." → "selmu kirad opens
/// library in vonta". Names are made of syllables. A name is in one part alone, so a model has to
/// copy names of the held-out part from the article.
Dataset<Headline> headlines(Part part, int64_t size, uint64_t seed = 0);

}  // namespace vitrine::nn::synthetic
