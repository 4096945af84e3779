// The example of attention over a graph: edges help, and the numbers of both are printed.
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/examples/printed.h"

TEST_CASE("a graph's communities are found over its edges, and hardly by dense attention") {
  vitrine::test::check_full_output(VITRINE_GRAPH_ATTENTION " --seeds 1");
  const std::string printed = vitrine::test::printed_by(VITRINE_GRAPH_ATTENTION " --seeds 2");
  const size_t at = printed.find("mean");
  REQUIRE_MESSAGE(at != std::string::npos, printed);
  double over_edges = 0, dense = 0;
  REQUIRE(std::sscanf(printed.c_str() + at, "mean %lf %% %lf", &over_edges, &dense) == 2);
  CHECK_MESSAGE(over_edges > 70, printed);
  CHECK_MESSAGE(over_edges > dense + 20, printed);
  CHECK_MESSAGE(dense > 25, printed);
  CHECK(std::system(VITRINE_GRAPH_ATTENTION " --seeds 0 2> /dev/null") != 0);
}
