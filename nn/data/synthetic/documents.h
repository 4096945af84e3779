// Documents of several sentences, of which one decides the class.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nn/data/synthetic/part.h"

namespace vitrine::nn::synthetic {

struct Document {
  std::vector<std::string> sentences;
  int64_t label = 0;  ///< 0: the writer complains, 1: the writer praises
  /// The sentence that decides: it has the only word of praise or complaint.
  int64_t decisive = 0;
};

/// Reports of a visit, with `fewest` to `most` sentences. All but one only report what happened,
/// and the decisive one is at a random place. In nearly half of the documents a sentence says what
/// somebody else thought, which counts for nothing.
Dataset<Document> documents(Part part, int64_t size, int64_t fewest = 4, int64_t most = 8, uint64_t seed = 0);

}  // namespace vitrine::nn::synthetic
