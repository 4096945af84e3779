#include "nn/data/synthetic/grammar.h"

#include <fmt/ranges.h>

#include <array>

namespace vitrine::nn::synthetic {
namespace {

struct Verb {
  const char *plain, *participle;
};
constexpr std::array kNouns = {"dog", "cat", "girl", "boy", "teacher", "farmer", "bird", "horse"};
constexpr std::array kPlaces = {"river", "house", "tree", "bridge"};
constexpr std::array kAdjectives = {"old", "small", "happy", "grey", "hungry", "quiet"};
constexpr std::array kVerbs = {Verb{"see", "seen"}, Verb{"help", "helped"}, Verb{"follow", "followed"},
                               Verb{"find", "found"}, Verb{"call", "called"}};
// Words of the same meaning, for paraphrases
struct Synonyms {
  const char *word, *other;
};
constexpr std::array kSynonyms = {Synonyms{"small", "little"}, Synonyms{"happy", "glad"},
                                  Synonyms{"old", "aged"}, Synonyms{"quiet", "silent"}};

/// A part of a sentence; the number decides the forms of its words.
struct Phrase {
  size_t noun = 0;
  bool plural = false, definite = true;
  std::string adjective, place;  // empty: there is none

  std::string head() const { return std::string(kNouns[noun]) + (plural ? "s" : ""); }
  std::string text() const {
    const std::string words = adjective.empty() ? head() : adjective + " " + head();
    const std::string phrase = definite ? "the " + words : plural ? "some " + words : with_article(words);
    return phrase + (place.empty() ? "" : " near the " + place);
  }
  bool operator==(const Phrase&) const = default;
};

struct Sentence {
  Phrase subject, object;
  size_t verb = 0;

  std::string verb_form(bool plural) const { return std::string(kVerbs[verb].plain) + (plural ? "" : "s"); }
  std::string text(bool agrees = true) const {
    return fmt::format("{} {} {}", subject.text(), verb_form(subject.plural == agrees), object.text());
  }
  bool operator==(const Sentence&) const = default;
};

bool chance(Generator& random) { return random.next_below(2) == 0; }

Phrase phrase(Generator& random) {
  Phrase p{index(random, kNouns.size()), chance(random), chance(random), "", ""};
  if (chance(random)) p.adjective = pick(random, kAdjectives);
  if (random.next_below(3) == 0) p.place = pick(random, kPlaces);
  return p;
}

Sentence sentence(Generator& random) {
  Sentence s{phrase(random), phrase(random), index(random, kVerbs.size())};
  while (s.object.noun == s.subject.noun) s.object = phrase(random);
  return s;
}

/// The same sentence with another noun, verb or, if `adjectives`, adjective.
Sentence changed(Sentence s, Generator& random, bool adjectives) {
  const Sentence old = s;
  while (s == old) {
    Phrase& p = chance(random) ? s.subject : s.object;
    switch (random.next_below(adjectives ? 3 : 2)) {
      case 0: p.noun = index(random, kNouns.size()); break;
      case 1: s.verb = index(random, kVerbs.size()); break;
      default: p.adjective = pick(random, kAdjectives);
    }
  }
  return s;
}

/// The same sentence without one of its adjectives and places, if it has any.
Sentence shortened(Sentence s, Generator& random) {
  std::string* const details[] = {&s.subject.adjective, &s.subject.place, &s.object.adjective,
                                  &s.object.place};
  for (size_t i = index(random, 4), tries = 0; tries < 4; ++i, ++tries)
    if (std::string& detail = *details[i % 4]; !detail.empty()) {
      detail.clear();
      break;
    }
  return s;
}

double similarity(const Sentence& a, const Sentence& b) {
  return (a.subject.noun == b.subject.noun) + (a.subject.adjective == b.subject.adjective) +
         (a.verb == b.verb) + (a.object.noun == b.object.noun) + (a.object.adjective == b.object.adjective);
}

std::string with_synonyms(std::string text) {
  for (const Synonyms& pair : kSynonyms)
    if (const size_t at = text.find(std::string(" ") + pair.word + " "); at != std::string::npos)
      text.replace(at + 1, std::string_view(pair.word).size(), pair.other);
  return text;
}

std::string content(const SentenceTask& item) { return item.first + "|" + item.second; }

Dataset<SentenceTask> task(Part part, int64_t size, uint64_t seed,
                           std::function<SentenceTask(Generator&)> draw) {
  return drawn<SentenceTask>(part, size, seed, std::move(draw), content);
}

std::string with_exchange(const std::string& text, Generator& random) {
  std::vector<std::string> words = words_of(text);
  const size_t at = index(random, words.size() - 1);
  std::swap(words[at], words[at + 1]);
  return fmt::format("{}", fmt::join(words, " "));
}

}  // namespace

Dataset<std::vector<std::string>> grammar_sentences(Part part, int64_t size, uint64_t seed) {
  using Words = std::vector<std::string>;
  return drawn<Words>(
      part, size, seed, [](Generator& random) { return words_of(sentence(random).text()); },
      [](const Words& words) { return fmt::format("{}", fmt::join(words, " ")); });
}

Dataset<SentenceTask> grammar_entailment(Part part, int64_t size, uint64_t seed) {
  return task(part, size, seed, [](Generator& random) -> SentenceTask {
    const Sentence premise = sentence(random), follows = shortened(premise, random);
    const bool label = chance(random);
    return {premise.text(), (label ? follows : changed(follows, random, false)).text(), label ? 1.0 : 0.0};
  });
}

Dataset<SentenceTask> grammar_similarity(Part part, int64_t size, uint64_t seed) {
  return task(part, size, seed, [](Generator& random) -> SentenceTask {
    const Sentence first = sentence(random);
    Sentence second = first;
    for (int64_t changes = random.next_below(7); changes > 0; --changes)
      second = changed(second, random, true);
    return {first.text(), second.text(), similarity(first, second)};
  });
}

Dataset<SentenceTask> grammar_acceptability(Part part, int64_t size, uint64_t seed) {
  return task(part, size, seed, [](Generator& random) -> SentenceTask {
    const Sentence right = sentence(random);
    if (chance(random)) return {right.text(), "", 1};
    return {chance(random) ? right.text(false) : with_exchange(right.text(), random), "", 0};
  });
}

Dataset<SentenceTask> grammar_questions(Part part, int64_t size, uint64_t seed) {
  return task(part, size, seed, [](Generator& random) -> SentenceTask {
    const Sentence asked = sentence(random);
    Sentence said = asked;
    said.object = phrase(random);
    const bool label = chance(random);
    if (!label && chance(random))
      said.verb = (asked.verb + 1 + index(random, kVerbs.size() - 1)) % kVerbs.size();
    else if (!label)
      said.subject.noun = (asked.subject.noun + 1 + index(random, kNouns.size() - 1)) % kNouns.size();
    return {fmt::format("what {} {} {} ?", asked.subject.plural ? "do" : "does", asked.subject.text(),
                        kVerbs[asked.verb].plain),
            said.text(), label ? 1.0 : 0.0};
  });
}

Dataset<Paraphrase> paraphrases(Part part, int64_t size, uint64_t seed) {
  return drawn<Paraphrase>(
      part, size, seed,
      [](Generator& random) -> Paraphrase {
        const Sentence s = sentence(random);
        const std::string passive =
            fmt::format("{} {} {} by {}", s.object.text(), s.object.plural ? "are" : "is",
                        kVerbs[s.verb].participle, s.subject.text());
        return {s.text(), with_synonyms(passive)};
      },
      [](const Paraphrase& item) { return item.first; });
}

}  // namespace vitrine::nn::synthetic
