// Pairs of rows of the tables of parts and bases go through checks of mixers: a few pairs, or as
// many as VITRINE_PAIRS says; "all" are all.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>

#include "tests/nn/mechanisms.h"
#include "tests/nn/mixer_checks.h"

using namespace vitrine;
using test::Depth;

namespace {

#ifdef VITRINE_SANITIZED
constexpr size_t kPairs = 8, kWholePairs = 0;
#else
constexpr size_t kPairs = 12, kWholePairs = 4;
#endif

}  // namespace

TEST_CASE("every pair of rows computes what it should, or is refused with a reason that names one of them") {
  auto pairs = test::pairs_of_rows();
  std::shuffle(pairs.begin(), pairs.end(), std::mt19937(12));
  const char* const wanted = std::getenv("VITRINE_PAIRS");  // a number, or "all" as in .ci/cards
  const bool all = wanted != nullptr && std::string(wanted) == "all";
  if (!all) pairs.resize(std::min(pairs.size(), wanted == nullptr ? kPairs : std::stoul(wanted)));
  size_t whole = all ? 0 : kWholePairs;  // so many pairs have every check
  if (std::getenv("VITRINE_PAIRS_WHOLE") != nullptr) whole = pairs.size();
  size_t computed = 0;
  for (size_t i = 0; i < pairs.size(); ++i) {
    const std::string& pair = pairs[i];
    const auto findings = test::check_mixer(pair, i < whole ? Depth::whole : Depth::pair);
    for (const auto& finding : findings) {
      INFO(pair, ", ", finding.check);
      CHECK_MESSAGE(finding.failure.empty(), finding.failure);
      computed += finding.check == "differences" && finding.refused.empty();
    }
    test::record(pair, findings);
  }
  CHECK(4 * computed > pairs.size());
}
