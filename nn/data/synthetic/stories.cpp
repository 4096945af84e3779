#include "nn/data/synthetic/stories.h"

#include <fmt/ranges.h>

#include <array>
#include <optional>

namespace vitrine::nn::synthetic {
namespace {

constexpr std::array kActors = {"mary", "john", "anna", "tom"};
constexpr std::array kRooms = {"kitchen", "garden", "old mill", "school", "market", "train station"};
constexpr std::array kThings = {"apple", "lamp", "letter"};

struct Span {
  int64_t begin = 0, end = 0;
};

/// Builds a story, and knows after each sentence where everybody and everything is.
class Narrator {
 public:
  void go(size_t person, const std::string& place) {
    const auto from = std::ssize(words_) + 4;
    say(fmt::format("{} went to the {} .", kActors[person], place));
    people_[person] = Span{from, std::ssize(words_) - 1};
  }
  void take(size_t person, size_t thing) {
    say(fmt::format("{} took the {} .", kActors[person], kThings[thing]));
    holders_[thing] = person;
    things_[thing].reset();
  }
  void drop(size_t thing) {
    const size_t person = *holders_[thing];
    say(fmt::format("{} dropped the {} .", kActors[person], kThings[thing]));
    things_[thing] = people_[person];
    holders_[thing].reset();
  }
  std::optional<Span> person(size_t i) const { return people_[i]; }
  std::optional<Span> thing(size_t i) const { return holders_[i] ? people_[*holders_[i]] : things_[i]; }
  bool is_held(size_t i) const { return holders_[i].has_value(); }
  const std::vector<std::string>& words() const { return words_; }

 private:
  void say(const std::string& sentence) {
    for (std::string& word : words_of(sentence)) words_.push_back(std::move(word));
  }
  std::vector<std::string> words_;
  std::array<std::optional<Span>, kActors.size()> people_;
  std::array<std::optional<Span>, kThings.size()> things_;
  std::array<std::optional<size_t>, kThings.size()> holders_;
};

Story draw_story(Generator& random, int64_t fewest, int64_t most) {
  Narrator narrator;
  const int64_t count = fewest + random.next_below(most - fewest + 1);
  for (int64_t i = 0; i < count; ++i) {
    const size_t person = index(random, kActors.size()), thing = index(random, kThings.size());
    const bool walks = i == 0 || random.next_below(2) == 0 || !narrator.person(person);
    if (walks)
      narrator.go(person, pick(random, kRooms));
    else if (narrator.is_held(thing))
      narrator.drop(thing);
    else
      narrator.take(person, thing);
  }
  // The first question that the story answers, from a random one on: somebody has always walked
  for (size_t i = index(random, kActors.size() + kThings.size());; ++i) {
    const size_t which = i % (kActors.size() + kThings.size());
    const bool about_person = which < kActors.size();
    const auto answer = about_person ? narrator.person(which) : narrator.thing(which - kActors.size());
    if (!answer) continue;
    const std::string asked =
        about_person ? kActors[which] : fmt::format("the {}", kThings[which - kActors.size()]);
    return {narrator.words(), words_of(fmt::format("where is {} ?", asked)), answer->begin, answer->end};
  }
}

}  // namespace

Dataset<Story> stories(Part part, int64_t size, int64_t fewest, int64_t most, uint64_t seed) {
  check(fewest >= 1 && most >= fewest, "stories: {} to {} sentences, wanted at least 1, in this order",
        fewest, most);
  return drawn<Story>(
      part, size, seed, [=](Generator& random) { return draw_story(random, fewest, most); },
      [](const Story& item) {
        return fmt::format("{} {}", fmt::join(item.story, " "), fmt::join(item.question, " "));
      });
}

}  // namespace vitrine::nn::synthetic
