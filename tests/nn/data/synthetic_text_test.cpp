// Synthetic data sets of text: answers, classes and labels follow from what an item says.
#include <doctest/doctest.h>
#include <fmt/ranges.h>

#include <cmath>
#include <map>
#include <set>

#include "nn/data/synthetic/dialogues.h"
#include "nn/data/synthetic/documents.h"
#include "nn/data/synthetic/entailment.h"
#include "nn/data/synthetic/grammar.h"
#include "nn/data/synthetic/headlines.h"
#include "nn/data/synthetic/preferences.h"
#include "nn/data/synthetic/stories.h"
#include "tests/nn/data/words.h"

using namespace vitrine;
using namespace vitrine::nn;
using namespace vitrine::nn::synthetic;

namespace {

int64_t index_of(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) - words.begin();
}

}  // namespace

TEST_CASE("entailment depends on the colour next to the object in the premise") {
  std::map<Relation, int64_t> counts;
  std::map<std::string, std::set<Relation>> of_hypothesis;
  for (const Entailment& item : entailment(Part::training, 900)) {
    ++counts[item.relation];
    of_hypothesis[item.hypothesis].insert(item.relation);
    const auto premise = words_of(item.premise), hypothesis = words_of(item.hypothesis);
    static const std::set<std::string> colours = {"blue",  "red",   "green", "yellow",
                                                  "black", "white", "brown", "pink"};
    if (hypothesis[0] == "the" && colours.contains(hypothesis.back())) {
      const std::string before = premise[static_cast<size_t>(index_of(premise, hypothesis[1]) - 1)];
      const Relation wanted = !colours.contains(before)     ? Relation::neutral
                              : before == hypothesis.back() ? Relation::entailment
                                                            : Relation::contradiction;
      CHECK_MESSAGE(item.relation == wanted, item.premise, " | ", item.hypothesis);
    } else {
      const Relation wanted = hypothesis[0] == "nobody" ? Relation::contradiction
                              : hypothesis[0] == "the"  ? Relation::neutral
                                                        : Relation::entailment;
      CHECK_MESSAGE(item.relation == wanted, item.premise, " | ", item.hypothesis);
    }
  }
  for (const auto& [relation, count] : counts) CHECK(std::abs(count - 300) < 60);
  CHECK(counts.size() == 3);
  CHECK(of_hypothesis["the bag is blue"].size() > 1);
}

TEST_CASE("one sentence decides the class of a document") {
  std::map<std::string, std::set<int64_t>> labels;
  std::set<int64_t> places;
  for (const Document& item : documents(Part::training, 500, 3, 6)) {
    CHECK(std::ssize(item.sentences) >= 3);
    CHECK(std::ssize(item.sentences) <= 6);
    labels[item.sentences[static_cast<size_t>(item.decisive)]].insert(item.label);
    places.insert(item.decisive);
    for (int64_t i = 0; i < std::ssize(item.sentences); ++i)
      if (i != item.decisive) labels[item.sentences[static_cast<size_t>(i)]].insert({0, 1, 2});
  }
  for (const auto& entry : labels)
    CHECK_MESSAGE((entry.second.size() == 1 || entry.second.contains(2)), entry.first);
  CHECK(places.size() == 6);
  CHECK_THROWS_WITH_AS(documents(Part::training, 1, 0, 3), doctest::Contains("0 to 3 sentences"), Error);
}

TEST_CASE("the answer of a story is the last place of the person, or of the thing") {
  int64_t about_things = 0, of_two_words = 0;
  for (const Story& item : stories(Part::training, 300, 3, 10)) {
    std::map<std::string, std::string> places, holders, dropped;
    size_t begin = 0;
    for (size_t i = 0; i < item.story.size(); ++i) {
      if (item.story[i] != ".") continue;
      const std::vector<std::string> s(item.story.begin() + static_cast<int64_t>(begin),
                                       item.story.begin() + static_cast<int64_t>(i));
      if (s[1] == "went") places[s[0]] = test::joined({s.begin() + 4, s.end()});
      if (s[1] == "took") holders[s[3]] = s[0];
      if (s[1] == "dropped") {
        CHECK(holders[s[3]] == s[0]);
        holders.erase(s[3]), dropped[s[3]] = places[s[0]];
      }
      begin = i + 1;
    }
    const std::string about = item.question[item.question.size() - 2];
    const bool thing = item.question[2] == "the";
    const std::string wanted = !thing                    ? places[about]
                               : holders.contains(about) ? places[holders[about]]
                                                         : dropped[about];
    const std::vector<std::string> answer(item.story.begin() + item.begin, item.story.begin() + item.end);
    CHECK_MESSAGE(test::joined(answer) == wanted, test::joined(item.story), test::joined(item.question));
    about_things += thing;
    of_two_words += answer.size() == 2;
  }
  CHECK(about_things > 30);
  CHECK(of_two_words > 30);
}

TEST_CASE("names of held-out headlines are not in training, and are in their articles") {
  std::set<std::string> known;
  for (const Headline& item : headlines(Part::training, 2000)) {
    known.insert(item.article.begin(), item.article.end());
    known.insert(item.headline.begin(), item.headline.end());
  }
  for (const Headline& item : headlines(Part::held_out, 100)) {
    const auto& h = item.headline;
    CHECK(h.size() == 6);
    CHECK(known.contains(h[2]));  // a verb
    CHECK(known.contains(h[3]));
    for (const std::string& name : {h[0], h[1], h[5]}) {
      CHECK_MESSAGE(!known.contains(name), name);
      CHECK_MESSAGE(index_of(item.article, name) < std::ssize(item.article), name);
    }
  }
}

TEST_CASE("answers of a dialogue follow from what was said before") {
  int64_t remembered = 0;
  for (const Dialogue& item : dialogues(Part::training, 200, 4)) {
    CHECK(item.turns.size() == 8);
    std::string name, liking;
    for (size_t i = 0; i < 8; i += 2) {
      const auto question = words_of(item.turns[i]), answer = words_of(item.turns[i + 1]);
      if (item.turns[i].starts_with("my name is")) name = question.back();
      if (item.turns[i].starts_with("i like")) liking = question.back();
      if (item.turns[i] == "what is my name ?") {
        CHECK(item.turns[i + 1] == "your name is " + name);
        ++remembered;
      }
      if (item.turns[i] == "what do i like ?") CHECK(item.turns[i + 1] == "you like " + liking);
      if (question.size() == 6 && question[3] == "plus")
        CHECK(std::stoi(question[2]) + std::stoi(question[4]) == std::stoi(answer.back()));
      if (item.turns[i].ends_with("in reverse ?"))
        CHECK(answer.back() == std::string(question[2].rbegin(), question[2].rend()));
    }
  }
  CHECK(remembered > 20);
}

TEST_CASE("verbs of the grammar agree with the subject, and the tasks' labels say what was changed") {
  const auto plural = [](const std::vector<std::string>& words) {
    // The head is the last word before "near" or the verb, and plural nouns end with s
    static const std::set<std::string> verbs = {"see",  "help",  "follow",  "find",  "call",
                                                "sees", "helps", "follows", "finds", "calls"};
    size_t head = 1, verb = 1;
    while (words[head + 1] != "near" && !verbs.contains(words[head + 1])) ++head;
    while (!verbs.contains(words[verb])) ++verb;
    return std::pair(words[head].back() == 's', words[verb].back() != 's');
  };
  for (const auto& words : grammar_sentences(Part::training, 200)) {
    const auto [subject, verb] = plural(words);
    CHECK_MESSAGE(subject == verb, test::joined(words));
  }
  std::map<double, int64_t> counts;
  for (const SentenceTask& item : grammar_acceptability(Part::training, 300)) {
    ++counts[item.label];
    if (item.label == 0) continue;
    const auto [subject, verb] = plural(words_of(item.first));
    CHECK_MESSAGE(subject == verb, item.first);
  }
  CHECK(std::abs(counts[0] - 150) < 45);
  for (const SentenceTask& item : grammar_entailment(Part::training, 200)) {
    const auto premise = words_of(item.first), hypothesis = words_of(item.second);
    bool within = true;  // each word of what follows is in the premise, in this order
    size_t at = 0;
    for (const std::string& word : hypothesis) {
      // Without its adjective a noun may get the other form of the article
      const bool article = word == "a" || word == "an";
      while (at < premise.size() && premise[at] != word && !(article && premise[at].starts_with("a"))) ++at;
      within &= at++ < premise.size();
    }
    CHECK_MESSAGE(within == (item.label == 1), item.first, " | ", item.second);
  }
  std::set<double> similarities;
  for (const SentenceTask& item : grammar_similarity(Part::training, 300)) {
    similarities.insert(item.label);
    if (item.first == item.second) CHECK(item.label == 5);
  }
  CHECK(similarities == std::set<double>{0, 1, 2, 3, 4, 5});
  for (const SentenceTask& item : grammar_questions(Part::training, 100)) {
    const auto question = words_of(item.first);
    const std::string subject = test::joined({question.begin() + 2, question.end() - 2}),
                      verb = question[question.size() - 2];
    CHECK_MESSAGE((item.second.starts_with(subject + " " + verb)) == (item.label == 1), item.first,
                  item.second);
  }
  for (const Paraphrase& item : paraphrases(Part::training, 50)) {
    CHECK(item.second.find(" by ") != std::string::npos);
    CHECK(item.first != item.second);
  }
}

TEST_CASE("the true reward of an answer counts greeting, things, the end, and repeated words") {
  const auto reward = [](const char* answer) { return true_reward("ada asks for tea and bread :", answer); };
  CHECK(reward("hello ada here is tea and bread enjoy .") == 4);
  CHECK(reward("hello ada here is bread and tea enjoy .") == 4);
  CHECK(reward("hello ben here is tea and bread enjoy .") == 3);
  CHECK(reward("here is tea and bread hello ada .") == 2);
  CHECK(reward("here is tea and cake .") == 0);
  CHECK(reward("here is rice and cake .") == -2);
  CHECK(reward("here is tea and tea .") == 0);
  CHECK(reward("enjoy enjoy enjoy") == -1);
  CHECK(reward("") == 0);
  CHECK_THROWS_WITH_AS(true_reward("ada asks for tea", "."), doctest::Contains("wanted \"NAME asks for"),
                       Error);
}

TEST_CASE("guests choose by the model of Bradley and Terry, and the best policy follows from the rewards") {
  std::map<double, int64_t> counts;
  double mean = 0, weights = 0, best = 0;
  constexpr double kBeta = 1.5, kCount = 8000;
  for (const Demonstration& item : demonstrations(Part::training, static_cast<int64_t>(kCount))) {
    const double reward = true_reward(item.prompt, item.answer), weight = std::exp(reward / kBeta);
    ++counts[reward], mean += reward / kCount, weights += weight, best += weight * reward;
  }
  CHECK(counts.size() == 7);
  CHECK(counts.begin()->first == -2);
  CHECK(counts.rbegin()->first == 4);
  CHECK(std::abs(mean - 1) < 0.07);  // four standard deviations
  CHECK(std::abs(best / weights - best_policy(kBeta).reward) < 0.08);
  // The share of pairs of one margin in which the better answer is chosen
  std::map<double, std::pair<double, double>> chosen;
  for (const Preference& item : preferences(Part::training, 8000)) {
    CHECK(item.chosen != item.rejected);
    const double margin = true_reward(item.prompt, item.chosen) - true_reward(item.prompt, item.rejected);
    auto& [better, all] = chosen[std::abs(margin)];
    better += margin > 0 ? 1 : margin == 0 ? 0.5 : 0, ++all;
  }
  for (const double margin : {0., 1., 2., 3.}) {
    const auto& [better, all] = chosen[margin];
    CHECK(all > 500);
    CHECK_MESSAGE(std::abs(better / all - 1 / (1 + std::exp(-margin))) < 0.045, margin);
  }
  // Reward and divergence of the best policies: a nat is worth beta
  for (const double beta : {0.3, 1., 4.}) {
    const BestPolicy a = best_policy(beta), b = best_policy(beta * 1.0001);
    CHECK((a.reward - b.reward) / (a.divergence - b.divergence) == doctest::Approx(beta).epsilon(1e-3));
  }
  CHECK(best_policy(1e9).reward == doctest::Approx(1));
  CHECK(std::abs(best_policy(1e9).divergence) < 1e-9);
  CHECK(best_policy(1e-9).reward == 4);
  CHECK(best_policy(1e-9).divergence == doctest::Approx(4 * std::log(2)));
  CHECK_THROWS_WITH_AS(best_policy(0), doctest::Contains("beta is 0"), Error);
}
