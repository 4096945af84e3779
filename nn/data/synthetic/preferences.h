// Answers to guests who order something, and which of two answers a guest prefers.
#pragma once

#include <cstdint>
#include <string>

#include "nn/data/synthetic/part.h"

namespace vitrine::nn::synthetic {

/// "ada asks for tea and bread :" → "hello ada here is tea and cake enjoy ."
struct Demonstration {
  std::string prompt, answer;
};

/// Two answers to one prompt.
struct Preference {
  std::string prompt, chosen, rejected;
};

/// Good and bad answers. Four things are right or wrong with probability 1/2, each on its own: the
/// answer begins with a greeting, each of two things is the one that was asked for, and the answer
/// ends with "enjoy". A prompt is in one part alone.
Dataset<Demonstration> demonstrations(Part part, int64_t size, uint64_t seed = 0);

/// Pairs of different answers, drawn like the demonstrations. The guest chooses one of them by the
/// model of Bradley and Terry: the first one with probability σ(r(first) − r(second)), where r is
/// true_reward. So the worse answer is sometimes chosen.
Dataset<Preference> preferences(Part part, int64_t size, uint64_t seed = 0);

/// The rule by which guests judge any text: 1 for "hello" and the right name at the beginning, 1
/// for each thing that was asked for, −1 for each other thing, 1 for "enjoy", and −1 for each word
/// that is repeated. Demonstrations have rewards from −2 to 4, with a mean of 1, and repeat no
/// word. A prompt of another form is an error.
double true_reward(const std::string& prompt, const std::string& answer);

/// What the best policy attains if a nat of distance from the demonstrations costs `beta` > 0.
struct BestPolicy {
  double reward;      ///< the mean of true_reward
  double divergence;  ///< KL(policy‖demonstrations), in nats per answer
};

/// The policy with the largest E r − β·KL is the distribution of the demonstrations times e^(r/β).
/// Something with probability 1/2 that is worth Δ then has the probability σ(Δ/β).
BestPolicy best_policy(double beta);

}  // namespace vitrine::nn::synthetic
