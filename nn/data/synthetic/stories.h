// Stories with a question, whose answer is a span of the story.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nn/data/synthetic/part.h"

namespace vitrine::nn::synthetic {

/// The answer is story[begin], …, story[end − 1].
struct Story {
  std::vector<std::string> story, question;
  int64_t begin = 0, end = 0;
};

/// People walk from place to place, and take and drop things (after Weston et al. 2015, bAbI tasks
/// 1 and 2). The question is where a person is, the last place to which the person went, or where a
/// thing is: the place of the person who carries it, or where it was dropped. Places have one or
/// two words. `fewest` to `most` sentences, each with a full stop.
Dataset<Story> stories(Part part, int64_t size, int64_t fewest = 4, int64_t most = 8, uint64_t seed = 0);

}  // namespace vitrine::nn::synthetic
