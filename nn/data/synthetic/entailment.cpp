#include "nn/data/synthetic/entailment.h"

#include <array>

namespace vitrine::nn::synthetic {
namespace {

struct Who {
  const char *one, *kind;  // "girl" is a "child"
};
constexpr std::array kPeople = {Who{"girl", "child"}, Who{"boy", "child"},     Who{"woman", "person"},
                                Who{"man", "person"}, Who{"doctor", "person"}, Who{"puppy", "animal"}};
constexpr std::array kDeeds = {"carries", "holds", "finds", "loses", "drops"};
constexpr std::array kColours = {"blue", "red", "green", "yellow", "black", "white", "brown", "pink"};
constexpr std::array kObjects = {"bag",  "umbrella", "hat", "ball", "book",
                                 "coat", "cup",      "box", "kite", "scarf"};
constexpr std::array kUnsaid = {"heavy", "old", "new", "expensive", "wet", "empty"};

/// A choice that is not `other`.
template <class Choices>
std::string pick_other(Generator& random, const Choices& choices, const std::string& other) {
  std::string chosen;
  do chosen = pick(random, choices);
  while (chosen == other);
  return chosen;
}

struct Thing {
  std::string name, colour;  // an empty colour: the premise says none
  std::string text() const { return with_article(colour.empty() ? name : colour + " " + name); }
};

std::string about_colour(Relation relation, const Thing& asked, const Thing& other, Generator& random) {
  std::string colour = asked.colour;
  if (relation == Relation::neutral) colour = pick(random, kColours);
  // Every second time the colour of the other object, which the premise does name
  if (relation == Relation::contradiction)
    colour = random.next_below(2) == 0 && !other.colour.empty() ? other.colour
                                                                : pick_other(random, kColours, asked.colour);
  return fmt::format("the {} is {}", asked.name, colour);
}

Entailment draw_entailment(Generator& random) {
  const Who who = pick(random, kPeople);
  const std::string verb = pick(random, kDeeds), name = pick(random, kObjects),
                    colour = pick(random, kColours);
  Thing things[] = {{name, colour},
                    {pick_other(random, kObjects, name), pick_other(random, kColours, colour)}};
  const auto about = static_cast<size_t>(random.next_below(2));
  Thing &asked = things[about], &other = things[1 - about];
  if (random.next_below(3) == 0) other.colour.clear();
  Entailment item;
  item.relation = static_cast<Relation>(random.next_below(3));
  const bool colour_asked = random.next_below(4) > 0;
  if (colour_asked && item.relation == Relation::neutral) asked.colour.clear();
  item.premise = fmt::format("a {} {} {} and {}", who.one, verb, things[0].text(), things[1].text());
  const std::string thing = with_article(asked.name);
  if (colour_asked)
    item.hypothesis = about_colour(item.relation, asked, other, random);
  else if (item.relation == Relation::entailment)
    item.hypothesis = fmt::format("{} {} {}", with_article(who.kind), verb, thing);
  else if (item.relation == Relation::neutral)
    item.hypothesis = fmt::format("the {} is {}", asked.name, pick(random, kUnsaid));
  else
    item.hypothesis = fmt::format("nobody {} {}", verb, thing);
  return item;
}

}  // namespace

Dataset<Entailment> entailment(Part part, int64_t size, uint64_t seed) {
  return drawn<Entailment>(part, size, seed, draw_entailment,
                           [](const Entailment& item) { return item.premise + "|" + item.hypothesis; });
}

}  // namespace vitrine::nn::synthetic
