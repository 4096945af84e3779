#include "nn/data/synthetic/documents.h"

#include <fmt/ranges.h>

#include <array>

namespace vitrine::nn::synthetic {
namespace {

constexpr std::array kSubjects = {"soup", "room", "music", "garden", "coffee", "service", "view", "bread"};
constexpr std::array kSites = {"near the station", "by the river", "on the first floor", "in the old town",
                               "next to the museum"};
constexpr std::array kOthers = {"my brother", "the guide", "our neighbour", "a man at the door"};
constexpr std::array<std::array<const char*, 6>, 2> kOpinions = {
    {{"awful", "cold", "dirty", "disappointing", "noisy", "boring"},
     {"wonderful", "lovely", "excellent", "charming", "delicious", "perfect"}}};

std::string plain_sentence(Generator& random) {
  switch (random.next_below(5)) {
    case 0: return fmt::format("we came on {}", pick(random, kDays));
    case 1: return fmt::format("the house is {}", pick(random, kSites));
    case 2: return fmt::format("we asked for the {}", pick(random, kSubjects));
    case 3:
      return fmt::format("we waited {} minutes for the {}", 5 + random.next_below(40),
                         pick(random, kSubjects));
    default: return fmt::format("there were {} of us", 2 + random.next_below(8));
  }
}

std::string opinion(Generator& random, int64_t label) {
  const char* const word = pick(random, kOpinions[static_cast<size_t>(label)]);
  switch (random.next_below(3)) {
    case 0: return fmt::format("the {} was {}", pick(random, kSubjects), word);
    case 1: return fmt::format("i found the {} {}", pick(random, kSubjects), word);
    default: return fmt::format("what {} {}", with_article(word), pick(random, kSubjects));
  }
}

/// In a few words of its own, so that the decisive sentence has the only word of the lists.
std::string of_somebody_else(Generator& random) {
  return fmt::format("{} had {} it", pick(random, kOthers), random.next_below(2) == 0 ? "liked" : "disliked");
}

Document draw_document(Generator& random, int64_t fewest, int64_t most) {
  Document item;
  const int64_t count = fewest + random.next_below(most - fewest + 1);
  for (int64_t i = 0; i < count; ++i) item.sentences.push_back(plain_sentence(random));
  item.label = random.next_below(2);
  item.decisive = random.next_below(count);
  item.sentences[static_cast<size_t>(item.decisive)] = opinion(random, item.label);
  const int64_t other = random.next_below(2 * count);
  if (other < count && other != item.decisive)
    item.sentences[static_cast<size_t>(other)] = of_somebody_else(random);
  return item;
}

}  // namespace

Dataset<Document> documents(Part part, int64_t size, int64_t fewest, int64_t most, uint64_t seed) {
  check(fewest >= 1 && most >= fewest, "documents: {} to {} sentences, wanted at least 1, in this order",
        fewest, most);
  return drawn<Document>(
      part, size, seed, [=](Generator& random) { return draw_document(random, fewest, most); },
      [](const Document& item) { return fmt::format("{}", fmt::join(item.sentences, ". ")); });
}

}  // namespace vitrine::nn::synthetic
