// Synthetic data sets: the two parts share no item, items repeat, and answers are right.
#include <doctest/doctest.h>
#include <fmt/ranges.h>

#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <set>

#include "core/creation.h"
#include "nn/data/log_mel.h"
#include "nn/data/synthetic/dates.h"
#include "nn/data/synthetic/dialogues.h"
#include "nn/data/synthetic/digits.h"
#include "nn/data/synthetic/documents.h"
#include "nn/data/synthetic/entailment.h"
#include "nn/data/synthetic/grammar.h"
#include "nn/data/synthetic/headlines.h"
#include "nn/data/synthetic/odd_one_out.h"
#include "nn/data/synthetic/preferences.h"
#include "nn/data/synthetic/sequences.h"
#include "nn/data/synthetic/stories.h"
#include "nn/data/synthetic/tones.h"
#include "tests/nn/data/words.h"

using namespace vitrine;
using namespace vitrine::nn;
using namespace vitrine::nn::synthetic;

namespace {

/// What identifies an item.
std::string key(const WrittenDate& x) { return x.iso; }
std::string key(const Sequences& x) { return content_of(x.input); }
std::string key(const OddOneOut& x) { return content_of(x.items); }
std::string key(const LabelledImage& x) { return content_of(x.image); }
std::string key(const Tones& x) { return content_of(x.samples); }
std::string key(const Entailment& x) { return x.premise + "|" + x.hypothesis; }
std::string key(const Document& x) { return test::joined(x.sentences); }
std::string key(const Story& x) { return test::joined(x.story) + test::joined(x.question); }
std::string key(const Headline& x) { return test::joined(x.article) + test::joined(x.headline); }
std::string key(const Dialogue& x) { return test::joined(x.turns); }
std::string key(const std::vector<std::string>& x) { return test::joined(x); }
std::string key(const SentenceTask& x) { return x.first + "|" + x.second; }
std::string key(const Paraphrase& x) { return x.first; }
std::string key(const Demonstration& x) { return x.prompt; }
std::string key(const Preference& x) { return x.prompt; }

template <class Item>
std::set<std::string> keys(const Dataset<Item>& items) {
  std::set<std::string> result;
  for (const Item& item : items) result.insert(key(item));
  return result;
}

/// `make` gives the data set of a part, a size and a seed.
template <class Make>
void check_parts(const char* name, const Make& make) {
  INFO(name);
  const auto items = make(Part::training, 200, 1);
  CHECK(items.size() == 200);
  CHECK(key(items[17]) == key(make(Part::training, 20, 1)[17]));
  const auto training = keys(items), held_out = keys(make(Part::held_out, 200, 1));
  CHECK(training != keys(make(Part::training, 200, 2)));
  CHECK(training.size() > 100);
  CHECK(held_out.size() > 20);
  for (const std::string& item : held_out) CHECK_MESSAGE(!training.contains(item), item);
  for (const std::string& item : keys(make(Part::held_out, 200, 2)))
    CHECK_MESSAGE(!training.contains(item), item);
}

/// By counting days from Monday, 1 January 1900.
std::string weekday(const std::string& iso) {
  const int year = std::stoi(iso), month = std::stoi(iso.substr(5)), day = std::stoi(iso.substr(8));
  const auto leap = [](int y) { return y % 4 == 0 && (y % 100 != 0 || y % 400 == 0); };
  int days = day - 1;
  for (int y = 1900; y < year; ++y) days += leap(y) ? 366 : 365;
  for (int m = 1; m < month; ++m)
    days += m == 2 ? (leap(year) ? 29 : 28) : m == 4 || m == 6 || m == 9 || m == 11 ? 30 : 31;
  const char* const names[] = {"monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"};
  return names[days % 7];
}

}  // namespace

TEST_CASE(
    "the parts of every data set share no item, whatever the seeds, and an item is the same in every call") {
  check_parts("dates", [](Part p, int64_t n, uint64_t s) { return dates(p, n, s); });
  check_parts("reversals", [](Part p, int64_t n, uint64_t s) { return reversals(p, n, {5, 4, 6}, s); });
  check_parts("copies", [](Part p, int64_t n, uint64_t s) { return copies(p, n, {}, s); });
  check_parts("parities", [](Part p, int64_t n, uint64_t s) { return parities(p, n, 5, 10, s); });
  check_parts("long copies", [](Part p, int64_t n, uint64_t s) { return long_copies(p, n, {}, s); });
  check_parts("odd one out", [](Part p, int64_t n, uint64_t s) { return odd_one_out(p, n, {}, s); });
  check_parts("digits", [](Part p, int64_t n, uint64_t s) { return digits(p, n, {}, s); });
  check_parts("tones", [](Part p, int64_t n, uint64_t s) { return tones(p, n, {}, s); });
  check_parts("entailment", [](Part p, int64_t n, uint64_t s) { return entailment(p, n, s); });
  check_parts("documents", [](Part p, int64_t n, uint64_t s) { return documents(p, n, 4, 8, s); });
  check_parts("stories", [](Part p, int64_t n, uint64_t s) { return stories(p, n, 4, 8, s); });
  check_parts("headlines", [](Part p, int64_t n, uint64_t s) { return headlines(p, n, s); });
  check_parts("dialogues", [](Part p, int64_t n, uint64_t s) { return dialogues(p, n, 3, s); });
  check_parts("grammar", [](Part p, int64_t n, uint64_t s) { return grammar_sentences(p, n, s); });
  check_parts("entailment of sentences",
              [](Part p, int64_t n, uint64_t s) { return grammar_entailment(p, n, s); });
  check_parts("similarity", [](Part p, int64_t n, uint64_t s) { return grammar_similarity(p, n, s); });
  check_parts("acceptability", [](Part p, int64_t n, uint64_t s) { return grammar_acceptability(p, n, s); });
  check_parts("questions", [](Part p, int64_t n, uint64_t s) { return grammar_questions(p, n, s); });
  check_parts("paraphrases", [](Part p, int64_t n, uint64_t s) { return paraphrases(p, n, s); });
  check_parts("demonstrations", [](Part p, int64_t n, uint64_t s) { return demonstrations(p, n, s); });
  check_parts("preferences", [](Part p, int64_t n, uint64_t s) { return preferences(p, n, s); });
}

TEST_CASE("one content in eight is held out, and a part without items is an error") {
  int64_t held_out = 0;
  for (int64_t i = 0; i < 8000; ++i) held_out += part_of(std::to_string(i)) == Part::held_out;
  CHECK(std::abs(held_out - 1000) < 110);  // 3.5 standard deviations
  CHECK_THROWS_WITH_AS(
      reversals(part_of("0 ") == Part::training ? Part::held_out : Part::training, 1, {1, 1, 1})[0],
      doctest::Contains("part has no item"), Error);
}

TEST_CASE("a written date is the day of its ISO form") {
  std::set<std::string> forms;
  int64_t with_weekday = 0;
  for (const WrittenDate& date : dates(Part::training, 400)) {
    CHECK(date.iso.size() == 10);
    CHECK(date.written.find(date.iso.substr(0, 4)) != std::string::npos);
    CHECK(date.written.find(std::to_string(std::stoi(date.iso.substr(8)))) != std::string::npos);
    if (const size_t comma = date.written.find("day,"); comma != std::string::npos) {
      CHECK(date.written.starts_with(weekday(date.iso)));
      ++with_weekday;
    }
    std::string form;
    for (const char c : date.written)
      if (!std::isalnum(static_cast<unsigned char>(c))) form += c;
    forms.insert(form);
  }
  CHECK(forms.size() == 7);  // of eight forms two have the same signs: 3 march 1999, mar 3 1999
  CHECK(with_weekday > 20);
}

TEST_CASE("sequences are reversed, copied, remembered and summed") {
  for (const Sequences& x : reversals(Part::training, 20, {5, 4, 6})) {
    CHECK(x.input.size() >= 4);
    CHECK(x.input.size() <= 6);
    for (size_t i = 0; i < x.input.size(); ++i) CHECK(x.target[i] == x.input[x.input.size() - 1 - i]);
    CHECK(*std::max_element(x.input.begin(), x.input.end()) < 5);
  }
  for (const Sequences& x : copies(Part::held_out, 20)) CHECK(x.input == x.target);
  for (const Sequences& x : parities(Part::training, 20, 3, 9))
    for (size_t t = 0; t < x.input.size(); ++t)
      CHECK(x.target[t] ==
            std::accumulate(x.input.begin(), x.input.begin() + static_cast<int64_t>(t) + 1, 0) % 2);
  for (const Sequences& x : long_copies(Part::training, 5, {3, 4, 10})) {
    CHECK(x.input.size() == 18);
    CHECK(x.input[14] == 4);
    CHECK(std::count(x.input.begin(), x.input.end(), 0) == 13);
    CHECK(std::vector<int64_t>(x.input.begin(), x.input.begin() + 4) ==
          std::vector<int64_t>(x.target.begin() + 14, x.target.end()));
    CHECK(std::count(x.target.begin(), x.target.end(), 0) == 14);
  }
  const auto written = written_after(copies(Part::training, 3, {5, 4, 4}), 5);
  for (int64_t i = 0; i < 3; ++i) {
    const std::vector<int64_t> x = copies(Part::training, 3, {5, 4, 4})[i].input;
    CHECK(written[i].input == std::vector<int64_t>{x[0], x[1], x[2], x[3], 5, x[0], x[1], x[2]});
    CHECK(written[i].target == std::vector<int64_t>{-100, -100, -100, -100, x[0], x[1], x[2], x[3]});
  }
  const Sequences bits = parities(Part::training, 1, 6, 6)[0];
  const Sequences end = counted_from(parities(Part::training, 1, 6, 6), 4)[0];
  CHECK(end.input == bits.input);
  CHECK(end.target == std::vector<int64_t>{-100, -100, -100, -100, bits.target[4], bits.target[5]});
  CHECK(counted_from(parities(Part::training, 1, 6, 6), 9)[0].target == std::vector<int64_t>(6, -100));
  const Batch batch = batch_of(std::vector<Sequences>{bits, end});
  CHECK(batch.tokens == 8);
  CHECK(batch.tensors[0].shape() == Shape{2, 6});
  CHECK(slice(batch.tensors[1], 0, 1, 2).values() ==
        std::vector<double>(end.target.begin(), end.target.end()));
  CHECK_THROWS_WITH_AS(batch_of({}), doctest::Contains("no sequences"), Error);
  CHECK_THROWS_WITH_AS(batch_of(std::vector<Sequences>{bits, {{1}, {1}}}),
                       doctest::Contains("1 symbols and 1 targets, wanted 6"), Error);
  CHECK_THROWS_WITH_AS(copies(Part::training, 1, {5, 3, 2}), doctest::Contains("lengths from 3 to 2"), Error);
  CHECK_THROWS_WITH_AS(long_copies(Part::training, 1, {0}), doctest::Contains("symbols 0"), Error);
}

TEST_CASE("the odd one is the farthest from the others, without noise the others are equal") {
  int64_t found = 0;
  std::set<int64_t> places;
  for (const OddOneOut& set : odd_one_out(Part::training, 100)) {
    const std::vector<double> x = set.items.values();
    std::vector<double> distances(10, 0);
    for (size_t i = 0; i < 10; ++i)
      for (size_t j = 0; j < 10; ++j) {
        double squares = 0;
        for (size_t f = 0; f < 16; ++f) squares += std::pow(x[i * 16 + f] - x[j * 16 + f], 2);
        distances[i] += std::sqrt(squares);
      }
    found += std::max_element(distances.begin(), distances.end()) - distances.begin() == set.odd;
    places.insert(set.odd);
  }
  CHECK(found > 95);
  CHECK(places.size() == 10);
  const OddOneOut exact = odd_one_out(Part::training, 1, {.count = 3, .features = 2, .spread = 0})[0];
  for (int64_t i = 0; i < 3; ++i)
    for (int64_t j = 0; j < 3; ++j)
      CHECK((std::memcmp(exact.items.data<float>() + 2 * i, exact.items.data<float>() + 2 * j, 8) == 0) ==
            ((i == exact.odd) == (j == exact.odd)));
  CHECK_THROWS_WITH_AS(odd_one_out(Part::training, 1, {.count = 2}), doctest::Contains("count 2"), Error);
}

TEST_CASE("the nearest of a few hundred drawn digits mostly is the same digit") {
  const auto train = digits(Part::training, 600), test = digits(Part::held_out, 100);
  std::vector<std::vector<double>> images;
  std::vector<int64_t> labels;
  for (const LabelledImage& item : train) images.push_back(item.image.values()), labels.push_back(item.label);
  int64_t right = 0;
  for (const LabelledImage& item : test) {
    const std::vector<double> x = item.image.values();
    double nearest = 1e9;
    int64_t label = -1;
    for (size_t i = 0; i < images.size(); ++i) {
      double distance = 0;
      for (size_t p = 0; p < x.size(); ++p) distance += std::abs(x[p] - images[i][p]);
      if (distance < nearest) nearest = distance, label = labels[i];
    }
    right += label == item.label;
    CHECK(*std::min_element(x.begin(), x.end()) >= 0);
    CHECK(*std::max_element(x.begin(), x.end()) <= 1);
  }
  CHECK(right > 75);  // by chance 10
  CHECK(right < 100);
  CHECK(std::set<int64_t>(labels.begin(), labels.end()).size() == 10);
  CHECK(digits(Part::training, 1, {.side = 28})[0].image.shape() == Shape{28, 28});
  CHECK_THROWS_WITH_AS(digits(Part::training, 1, {.side = 4}), doctest::Contains("side 4"), Error);
}

TEST_CASE("the pitches of a digit's tones go up and down as its number says") {
  // 1: the third pitch after the first one; 4: from the third to the fifth; 9: falls
  const LogMel features({});
  std::map<int64_t, std::set<bool>> rises;
  for (const Tones& item : tones(Part::training, 200, {.noise = 0})) {
    CHECK(item.digits.size() == 1);
    const Tensor y = features(item.samples);
    // The loudest filter in each frame that has sound
    std::vector<int64_t> loudest;
    for (int64_t t = 0; t < y.size(0); ++t) {
      const float* const row = y.data<float>() + t * 40;
      const float* const top = std::max_element(row, row + 40);
      if (*top > 2) loudest.push_back(top - row);
    }
    REQUIRE(loudest.size() > 6);
    rises[item.digits[0]].insert(loudest[loudest.size() / 2] > loudest[1]);
  }
  CHECK(rises.size() == 10);
  for (const auto& [digit, directions] : rises) CHECK(directions.size() == 1);
  CHECK(rises[0] == std::set{true});
  CHECK(rises[3] == std::set{false});
  CHECK(rises[9] == std::set{false});
  const Tones several = tones(Part::training, 1, {.fewest = 3, .most = 3})[0];
  CHECK(several.digits.size() == 3);
  CHECK(several.samples.numel() > 3 * 3 * 400);
  CHECK_THROWS_WITH_AS(tones(Part::training, 1, {.fewest = 0}), doctest::Contains("0 to 1 digits"), Error);
}
