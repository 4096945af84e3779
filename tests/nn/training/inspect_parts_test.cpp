// What the report shows of experts and of universal blocks.
#include "nn/training/inspect_parts.h"

#include <doctest/doctest.h>

#include <numeric>

#include "core/random.h"
#include "tests/nn/models/tiny_gpt.h"

using namespace vitrine;
using namespace vitrine::nn;

TEST_CASE(
    "the loads of the experts sum to 1, and the choices without a place are those beyond the capacity") {
  manual_seed(1);
  GptOptions options = test::tiny_gpt("standard");
  options.experts = {.count = 3, .per_token = 2, .capacity_factor = 0.5};
  Gpt model(options);
  report::RunRecord record;
  training::inspect_parts(model, test::ids(2, 6), record);
  REQUIRE(record.tables.size() == 1);
  const report::ShadedTable& table = record.tables[0];
  CHECK(table.columns == std::vector<std::string>{"1", "2", "3", "no place"});
  REQUIRE(table.rows.size() == 2);  // layers
  for (auto row = table.values.begin(); row != table.values.end(); row += 4) {
    CHECK(std::accumulate(row, row + 3, 0.0) == doctest::Approx(1));
    double lost = 0;  // 24 choices, and 4 places in each expert
    for (auto load = row; load != row + 3; ++load) lost += std::max(*load - 4.0 / 24, 0.0);
    CHECK(row[3] == doctest::Approx(lost));
    CHECK(row[3] >= 0.5 - 1e-12);  // 12 of 24 find a place at most
  }
}

TEST_CASE("a universal model shows the steps of each position, and another model nothing") {
  manual_seed(1);
  GptOptions options = test::tiny_gpt("standard");
  report::RunRecord record;
  Gpt plain(options);
  training::inspect_parts(plain, test::ids(2, 6), record);
  CHECK(record.tables.empty());
  options.universal = true, options.layers = 4;
  Gpt universal(options);
  training::inspect_parts(universal, test::ids(2, 6), record);
  REQUIRE(record.tables.size() == 1);
  CHECK(record.tables[0].rows.size() == 2);
  CHECK(record.tables[0].columns.size() == 6);
  for (const double steps : record.tables[0].values) CHECK((steps >= 1 && steps <= 4));
}
