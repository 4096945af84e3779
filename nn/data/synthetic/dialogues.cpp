#include "nn/data/synthetic/dialogues.h"

#include <fmt/ranges.h>

#include <array>

namespace vitrine::nn::synthetic {
namespace {

constexpr std::array kNames = {"ada", "ben", "cleo", "dora", "emil", "fritz", "greta", "hugo"};
constexpr std::array kLikings = {"tea", "chess", "rain", "jazz", "apples", "trains"};
struct Opposites {
  const char *word, *opposite;
};
constexpr std::array kOpposites = {Opposites{"hot", "cold"},   Opposites{"up", "down"},
                                   Opposites{"big", "small"},  Opposites{"old", "new"},
                                   Opposites{"light", "dark"}, Opposites{"fast", "slow"}};
constexpr std::array kWords = {"stone", "bread", "light", "house", "river", "cloud"};

/// What the user has said so far; empty: nothing.
struct Said {
  std::string name, liking;
};

void add_round(Said& said, Generator& random, std::vector<std::string>& turns) {
  const auto add = [&](std::string_view question, std::string_view answer) {
    turns.emplace_back(question);
    turns.emplace_back(answer);
  };
  switch (random.next_below(5)) {
    case 0:
      if (said.name.empty()) {
        said.name = pick(random, kNames);
        return add("my name is " + said.name, "hello " + said.name);
      }
      return add("what is my name ?", "your name is " + said.name);
    case 1:
      if (said.liking.empty()) {
        said.liking = pick(random, kLikings);
        return add("i like " + said.liking, "it is good to like " + said.liking);
      }
      return add("what do i like ?", "you like " + said.liking);
    case 2: {
      const int64_t a = random.next_below(20), b = random.next_below(20);
      return add(fmt::format("what is {} plus {} ?", a, b), fmt::format("{} plus {} is {}", a, b, a + b));
    }
    case 3: {
      const Opposites pair = pick(random, kOpposites);
      return add(fmt::format("what is the opposite of {} ?", pair.word),
                 fmt::format("the opposite of {} is {}", pair.word, pair.opposite));
    }
    default: {
      const std::string word = pick(random, kWords);
      return add(fmt::format("what is {} in reverse ?", word), std::string(word.rbegin(), word.rend()));
    }
  }
}

}  // namespace

Dataset<Dialogue> dialogues(Part part, int64_t size, int64_t rounds, uint64_t seed) {
  check(rounds >= 1, "dialogues: {} rounds, wanted at least 1", rounds);
  return drawn<Dialogue>(
      part, size, seed,
      [rounds](Generator& random) {
        Dialogue item;
        Said said;
        for (int64_t i = 0; i < rounds; ++i) add_round(said, random, item.turns);
        return item;
      },
      [](const Dialogue& item) { return fmt::format("{}", fmt::join(item.turns, "|")); });
}

}  // namespace vitrine::nn::synthetic
