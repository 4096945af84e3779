// Configuration files: reading, writing, and errors of broken lines.
// tests/examples/train_gpt_test.cpp has more broken lines.
#include "nn/config_file.h"

#include <doctest/doctest.h>

#include "tests/folder.h"

using namespace vitrine;
using namespace vitrine::nn;

namespace {

struct Trip {
  std::string goal = "sea", note;
  int64_t days = 3;
  double speed = 0.1;
  bool slow = false;
  std::vector<std::string> stops;

  void list(OptionList& o) {
    o.group("Where");
    o("goal", goal, "where to");
    o("stops", stops, "on the way");
    o("note", note, "what to remember");
    o.group("How");
    o("days", days, "of travel").at_least(1);
    o("speed", speed, "of travel");
    o("slow", slow, "by ship");
  }
};

Trip read(const test::Folder& folder, const std::string& text) {
  test::write_bytes(folder / "trip.ini", text);
  Trip trip;
  OptionList list = options_of(trip);
  read_config(folder / "trip.ini", list);
  return trip;
}

}  // namespace

TEST_CASE("a configuration file has names, values, flags, lists and comments") {
  const test::Folder folder;
  const Trip trip = read(
      folder,
      "# where\n\n goal = the far \t side # by foot\r\nstops=[ a, 'b,]\\n' , \"c\\n\\\"\\\\\\t\" ] ; and\n"
      "slow\ndays = 4\nspeed = 2.5e-1\nnote = a#b;c\n");
  CHECK(trip.goal == "the far \t side");
  CHECK(trip.stops == std::vector<std::string>{"a", "b,]\\n", "c\n\"\\\t"});
  CHECK(trip.slow);
  CHECK(trip.days == 4);
  CHECK(trip.speed == 0.25);
  CHECK(trip.note == "a#b;c");
}

TEST_CASE("what is written is read back, whatever texts contain") {
  const test::Folder folder;
  for (const std::string& text :
       {std::string("plain"), std::string("a b"), std::string("\"'#;[],=\\"), std::string("\n\r\t\\n"),
        std::string("ünï\xff"), std::string(" # "), std::string("true")}) {
    Trip trip{
        .goal = text, .note = "x", .days = 9, .speed = 1.0 / 3, .slow = true, .stops = {text, "", text}};
    const std::string written = config_text(options_of(trip), "a trip");
    const Trip back = read(folder, written);
    CAPTURE(written);
    CHECK(back.goal == text);
    CHECK(back.note == "x");
    CHECK(back.days == 9);
    CHECK(back.speed == 1.0 / 3);
    CHECK(back.slow);
    CHECK(back.stops == trip.stops);
  }
}

TEST_CASE("a file is written by groups, without what has no value") {
  Trip trip{.goal = "sea", .note = "", .days = 3, .speed = 0.5, .slow = false, .stops = {}};
  CHECK(config_text(options_of(trip), "a trip") ==
        "# a trip\n\n# Where\ngoal = sea\nnote = \"\"\n\n# How\ndays = 3\nspeed = 0.5\nslow = false\n");
}

TEST_CASE("a broken line, an unknown key, a wrong type and a value out of range name the line") {
  const test::Folder folder;
  const std::pair<const char*, const char*> mistakes[] = {
      {"dasy = 4", "there is no option dasy; did you mean days?"},
      {"elsewhere = 4", "there is no option elsewhere"},
      {"days = few", "days is few, wanted a whole number"},
      {"days = 0", "days is 0, wanted at least 1"},
      {"slow = maybe", "slow is maybe, wanted true or false"},
      {"goal = x", "wanted goal once, before \"= x\""},
      {"note = \"\\q\"", "wanted \\n, \\r, \\t, \\\" or \\\\ after a \\"},
      {"note = \"\\", "wanted \\n, \\r, \\t, \\\" or \\\\ after a \\"},
      {"note = 'x", "wanted the end of a text in quotes"},
      {"days 4", "wanted the end of the line, before \"4\""},
      {"[Where]", "wanted the name of an option"},
  };
  for (const auto& mistake : mistakes) {
    const std::string text = std::string("goal = sea\n") + mistake.first + "\n",
                      wanted = folder / "trip.ini, line 2: " + mistake.second;
    CHECK_THROWS_WITH_AS(read(folder, text), doctest::Contains(wanted.c_str()), Error);
  }
  Trip trip;
  OptionList list = options_of(trip);
  CHECK_THROWS_WITH_AS(read_config(folder / "none.ini", list), doctest::Contains("none.ini: No such file"),
                       Error);
  CHECK_THROWS_WITH_AS(read_config(folder.path.string(), list), doctest::Contains("is a folder"), Error);
}
