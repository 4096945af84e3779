// Names that users type: their distance to known names, and the values that they stand for.
#include "core/names.h"

#include <doctest/doctest.h>

using namespace vitrine;

namespace {

enum class Fruit { apple, pear, plum, unnamed };
EnumNames<Fruit> names_of(Fruit) {
  return {"fruit",
          {{"apple", Fruit::apple}, {"pear", Fruit::pear}, {"plum", Fruit::plum}},
          " (nuts are elsewhere)"};
}

}  // namespace

TEST_CASE("the edit distance counts insertions, deletions and replacements") {
  CHECK(edit_distance("", "") == 0);
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("kitten", "sitting") == 3);
  CHECK(edit_distance("layrs", "layers") == 1);
  CHECK(edit_distance("flaw", "lawn") == 2);
}

TEST_CASE("the nearest name is suggested where it is near") {
  const std::vector<std::string> known = {"layers", "heads", "weight-decay"};
  CHECK(did_you_mean("layrs", known) == "; did you mean layers?");
  CHECK(did_you_mean("weight_decays", known) == "; did you mean weight-decay?");
  CHECK(did_you_mean("xyz", known).empty());
  CHECK(did_you_mean("layers", {}).empty());
}

TEST_CASE("an enumeration is read and written by the names of its table") {
  CHECK(value_named<Fruit>("pear") == Fruit::pear);
  CHECK(name_of(Fruit::plum) == "plum");
  CHECK_THROWS_WITH_AS(
      value_named<Fruit>("pare"),
      "there is no fruit pare: wanted apple, pear or plum (nuts are elsewhere); did you mean pear?", Error);
  CHECK_THROWS_WITH_AS(name_of(Fruit::unnamed), "the fruit with number 3 has no name", Error);
}
