#include <doctest/doctest.h>

#include <set>

#include "tests/spec/spec.h"

using namespace vitrine;

TEST_CASE("what a row records on the tape has a row of its own") {
  std::set<std::string> known = {"region", "embed", "take_rows", "put_rows", "to"};
  for (const auto& row : spec::rows()) known.insert(row.name);
  for (int order : {1, 2})
    for (const auto& row : spec::rows()) {
      Tape tape({.order = order});
      const auto inputs = spec::draw(row, 0);
      for (const Tensor& x : inputs) tape.watch(x);
      const Tensor y = row.call(inputs);
      for (size_t i = 0; i < tape.size(); ++i)
        CHECK_MESSAGE((known.count(tape.info(i).op) || tape.info(i).output_slots.empty()),
                      fmt::format("{} records {}, which has no row", row.name, tape.info(i).op));
    }
}
