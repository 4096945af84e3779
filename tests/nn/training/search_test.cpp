// Hyperparameter search: axes, trials, rungs, and which trials go on.
#include "nn/training/search.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "nn/training/trainer.h"
#include "tests/ops/reference.h"

using namespace vitrine;
using namespace vitrine::nn;
using namespace vitrine::nn::training;

namespace {

struct Options {
  double lr = 1;
  int64_t width = 8;
  std::string kind = "a", mixer, out = "x";
  void list(OptionList& o) {
    o("lr", lr, "").above(0).below(5);
    o("width", width, "").at_least(1);
    o("kind", kind, "").one_of({"a", "b"});
    o("mixer", mixer, "");
    o("out", out, "").decides(Role::files);
  }
};

std::vector<SearchAxis> axes(const std::vector<std::string>& words) {
  Options s;
  OptionList list = options_of(s);
  return parse_search_axes(words, {"softcap"}, list);
}

}  // namespace

TEST_CASE("axes are lists or ranges of options, and a wrong one is an error that says what was wanted") {
  const auto parsed = axes({"kind=a", "b", "lr=1e-3..1", "width=4..20"});
  REQUIRE(parsed.size() == 3);
  CHECK(parsed[0].values == std::vector<std::string>{"a", "b"});
  CHECK((parsed[1].logarithmic && !parsed[1].whole && parsed[1].low == 1e-3 && parsed[1].high == 1));
  CHECK((!parsed[2].logarithmic && parsed[2].whole));
  CHECK(axes({"lr=1e-2"})[0].values == std::vector<std::string>{"0.01"});
  CHECK(axes({"mixer=a", "b+softcap=20", "softcap=3"})[0].values ==
        std::vector<std::string>{"a", "b+softcap=20", "softcap=3"});
  const std::pair<std::vector<std::string>, const char*> mistakes[] = {
      {{}, "there is nothing to search"},
      {{"0.1"}, "wanted OPTION=VALUE,VALUE or OPTION=LOW..HIGH"},
      {{"lr=0.1..1", "2"}, "wanted OPTION=VALUE,VALUE or OPTION=LOW..HIGH"},
      {{"lrr=1"}, "there is no option lrr; did you mean lr?"},
      {{"mixer=a", "lrr=1"}, "there is no option lrr; did you mean lr?"},
      {{"softcap=1"}, "there is no option softcap"},
      {{"lr=1", "lr=2"}, "--over names lr twice"},
      {{"lr=2..1"}, "the range is 2..1, wanted LOW..HIGH"},
      {{"lr=a..1"}, "the range is a..1, wanted LOW..HIGH"},
      {{"lr=0..1"}, "--over lr is 0, wanted (0, 5)"},
      {{"kind=1..2"}, "a range is for numbers"},
      {{"kind=c"}, "--over kind is c, wanted a or b"},
      {{"out=y"}, "--out is the same for all trials"},
  };
  for (const auto& mistake : mistakes) {
    const std::string error = test::error_of([&] { axes(mistake.first); });
    CHECK_MESSAGE(error.find(mistake.second) != error.npos, error);
  }
}

TEST_CASE("a grid has each combination once, in order") {
  const auto trials = grid_trials(axes({"kind=a", "b", "width=1", "2", "3"}));
  REQUIRE(trials.size() == 6);
  CHECK(trials[1] == OptionValues{{"kind", "a"}, {"width", "2"}});
  CHECK(std::set<OptionValues>(trials.begin(), trials.end()).size() == 6);
  CHECK(test::error_of([] { grid_trials(axes({"lr=0.1..0.2"})); }).find("a grid has values, not a range") !=
        std::string::npos);
}

TEST_CASE("random trials depend on seed and number alone, and spread as they should") {
  const auto given = axes({"lr=0.001..1", "width=4..7", "kind=a", "b"});
  const auto few = random_trials(given, 5, 3), many = random_trials(given, 2000, 3);
  CHECK(std::equal(few.begin(), few.end(), many.begin()));
  CHECK(few != random_trials(given, 5, 4));
  double below = 0, b = 0;
  std::map<std::string, int> widths;
  for (const OptionValues& trial : many) {
    const double lr = std::stod(trial[0].second);
    CHECK((lr >= 0.001 && lr <= 1));
    below += lr < 0.01 ? 1 : 0;
    ++widths[trial[1].second];
    b += trial[2].second == "b" ? 1 : 0;
  }
  CHECK(below / 2000 == doctest::Approx(1.0 / 3).epsilon(0.1));  // one of three decades
  CHECK(b / 2000 == doctest::Approx(0.5).epsilon(0.1));
  CHECK(widths.size() == 4);
  for (const auto& width : widths) CHECK_MESSAGE(std::abs(width.second - 500) < 100, width.first);
}

TEST_CASE("rungs grow by eta up to all steps") {
  CHECK(halving_rungs(2700, 3, 4) == std::vector<int64_t>{100, 300, 900, 2700});
  CHECK(halving_rungs(10, 3, 3) == std::vector<int64_t>{2, 4, 10});
  CHECK(halving_rungs(7, 2, 1) == std::vector<int64_t>{7});
  CHECK(test::error_of([] { halving_rungs(4, 2, 5); }).find("too many for 4 steps") != std::string::npos);
}

TEST_CASE("the best third of the trials goes on, what failed never does, and a stop ends the search") {
  const std::vector<OptionValues> trials =
      grid_trials(axes({"width=1", "2", "3", "4", "5", "6", "7", "8", "9"}));
  // Later rungs reverse the order, so that a search that compared old losses would choose others.
  const double losses[3][9] = {
      {5, 1, NAN, 2, 8, 1, 9, 7, 6}, {0, 3, 0, 2, 0, 4, 0, 0, 0}, {0, 0, 0, 7, 0, 0, 0, 0, 0}};
  std::vector<std::pair<size_t, size_t>> calls;
  const auto evaluate = [&](size_t trial, size_t rung) {
    calls.emplace_back(trial, rung);
    return losses[rung][trial];
  };
  const auto results = search(trials, {1, 3, 9}, 3, evaluate);
  CHECK(calls.size() == 9 + 3 + 1);
  CHECK(std::vector(calls.begin() + 9, calls.end()) ==
        std::vector<std::pair<size_t, size_t>>{{1, 1}, {3, 1}, {5, 1}, {3, 2}});
  CHECK(results[3].losses == std::vector<double>{2, 2, 7});
  CHECK(results[3].steps == 9);
  CHECK(std::isinf(results[2].loss()));
  const auto order = best_first(results);
  CHECK(std::vector(order.begin(), order.begin() + 4) == std::vector<size_t>{3, 1, 5, 0});
  CHECK(order.back() == 2);
  const auto all_fail = search(trials, {1, 3}, 3, [](size_t, size_t) { return NAN; });
  CHECK(all_fail[0].losses.size() == 1);
  calls.clear();
  search(trials, {1, 3}, 3, evaluate, [&] { return calls.size() == 2; });
  CHECK(calls.size() == 2);
}
