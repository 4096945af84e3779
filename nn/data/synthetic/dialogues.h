// Dialogues of questions and answers.
#pragma once

#include <string>
#include <vector>

#include "nn/data/synthetic/part.h"

namespace vitrine::nn::synthetic {

/// A user and an assistant speak in turn; the user begins.
struct Dialogue {
  std::vector<std::string> turns;
};

/// `rounds` questions with their answers. The user says a name and a liking and asks for them
/// later, asks for sums below 20, for the opposite of a word, or for the letters of a word in
/// reverse. The answer follows from the question, or from what the user has said before.
Dataset<Dialogue> dialogues(Part part, int64_t size, int64_t rounds = 3, uint64_t seed = 0);

}  // namespace vitrine::nn::synthetic
