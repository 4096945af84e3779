// What the report shows of a trained model's mixers, for each mixer of the library.
#include "nn/training/inspect_attention.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "nn/training/tasks/language_modeling.h"
#include "tests/nn/mechanisms.h"
#include "tests/nn/models/tiny_gpt.h"

using namespace vitrine;
using namespace vitrine::nn;

TEST_CASE("every causal mixer has maps, and gradients along its queries, keys and values") {
  std::vector<std::string> names = test::mechanisms();
  for (const std::string& name : test::other_mixers()) names.push_back(name);
  for (const std::string& name : names) {
    INFO(name);
    manual_seed(1);
    Gpt model(test::tiny_gpt(name));
    report::RunRecord record;
    training::inspect_attention(
        model, {{test::ids(2, 6), test::ids(2, 6)}, 12}, [](int64_t id) { return std::to_string(id); },
        record);
    REQUIRE(record.maps.size() == record.heads.size());
    REQUIRE(record.maps.size() >= 2);  // two layers
    for (const auto& map : record.maps) {
      CHECK(map.query_labels.size() == 6);
      CHECK(map.weights.size() == 6 * map.key_labels.size());
      for (const float weight : map.weights) REQUIRE(std::isfinite(weight));
    }
    // NaN: the mixer has no such path
    for (const auto& head : record.heads) CHECK_FALSE(head.grad_norm_v <= 0);
  }
}
