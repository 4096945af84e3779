// Every part of attention in the library, alone and in company: what tests of attention and of models run through.
#pragma once

#include <string>
#include <vector>

namespace vitrine::test {

inline const std::vector<std::string> kMechanisms = {"standard",
                                                     "laser",
                                                     "cosine",
                                                     "qk_norm",
                                                     "qk_norm_rms",
                                                     "temperature",
                                                     "rotary",
                                                     "alibi",
                                                     "optimal",
                                                     "entropy",
                                                     "optimal=32",
                                                     "optimal=visible",
                                                     "cosine=visible",
                                                     "scale=0.3",
                                                     "softcap=2",
                                                     "laser+qk_norm+alibi",
                                                     "laser+cosine+rotary+temperature",
                                                     "laser+softcap=3+entropy",
                                                     "laser+entropy=visible+alibi"};

}  // namespace vitrine::test
