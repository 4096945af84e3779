// Every row of the tables of parts and bases goes through all checks of mixers, and pairs of rows
// through a part of them.
#include "tests/nn/mixer_checks.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>

#include "core/creation.h"
#include "tests/nn/mechanisms.h"

using namespace vitrine;
using test::Depth;

namespace {

// Sanitizers make the whole list take minutes, and find what they find in its first part too.
#ifdef VITRINE_SANITIZED
constexpr Depth kDepth = Depth::pair;
constexpr size_t kPairs = 12;
#else
constexpr Depth kDepth = Depth::whole;
constexpr size_t kPairs = 60;
#endif

}  // namespace

TEST_CASE("every mechanism: gradients, causality, decoding, lengths, 16 bits, threads, GPU") {
  test::record_rows();
  auto names = test::mechanisms();
  for (const std::string& other : test::other_mixers()) names.push_back(other);
  for (const nn::MixerRow* row : nn::mixer_table(false))
    if (!row->causal) names.push_back(row->name);
  for (const std::string& name : names) {
    const auto findings = test::check_mixer(name, kDepth);
    for (const auto& finding : findings) {
      INFO(name, ", ", finding.check);
      CHECK_MESSAGE(finding.failure.empty(), finding.failure);
    }
    test::record(name, findings);
  }
}

TEST_CASE("every mixer is float32, takes empty sequences, and refuses other lengths and no heads") {
  const auto refused = [](auto&& call) {
    try {
      call();
    } catch (const Error&) {
      return true;
    }
    return false;
  };
  for (const nn::MixerRow* row : nn::mixer_table(false)) {
    const std::string name = row->name;
    INFO(name);
    nn::MixerOptions options{.width = 8, .heads = 2, .context = 16, .name = name, .causal = row->causal};
    const auto mixer = nn::make_mixer(options);
    for (const nn::Parameter& p : mixer->parameters()) CHECK(p.dtype() == DType::float32);
    nn::MixerTrace trace;
    const nn::MixerCall call{.mask = {.causal = row->causal}, .trace = &trace};
    CHECK(mixer->forward(zeros({2, 0, 8}), call).shape() == Shape{2, 0, 8});
    nn::MixerCall wrong{.mask = {.causal = row->causal}};
    wrong.lengths = index_tensor(std::vector<int64_t>{1}, {1});
    CHECK(refused([&] { mixer->forward(zeros({3, 4, 8}), wrong); }));
    options.heads = 0;
    if (name != "lstm" && name != "gru" && name != "rwkv4" && name != "mamba")
      CHECK(refused([&] { nn::make_mixer(options); }));
  }
}

TEST_CASE("every row and each of its options changes the output") {
  const auto check = [](const auto& row) {
    const auto findings = test::check_sensitivity(row.name, row.options);
    for (const auto& finding : findings) {
      INFO(row.name, ", ", finding.check);
      CHECK_MESSAGE(finding.failure.empty(), finding.failure);
    }
    test::record(test::name_of(row), findings);
  };
  for (const nn::AttentionPartRow* row : nn::attention_part_table(false)) check(*row);
  for (const nn::MixerRow* row : nn::mixer_table(false))
    if (row->name != "standard") check(*row);
}

TEST_CASE("every pair of rows computes what it should, or is refused with a reason that names one of them") {
  auto pairs = test::pairs_of_rows();
  const char* const wanted = std::getenv("VITRINE_PAIRS");  // a number, or "all"
  if (wanted == nullptr || std::string(wanted) != "all") {
    const size_t count = wanted == nullptr ? kPairs : std::stoul(wanted);
    std::shuffle(pairs.begin(), pairs.end(), std::mt19937(12));
    pairs.resize(std::min(pairs.size(), count));
  }
  size_t computed = 0;
  for (const std::string& pair : pairs) {
    const auto findings = test::check_mixer(pair, Depth::pair);
    for (const auto& finding : findings) {
      INFO(pair, ", ", finding.check);
      CHECK_MESSAGE(finding.failure.empty(), finding.failure);
      computed += finding.check == "differences" && finding.refused.empty();
    }
    test::record(pair, findings);
  }
  CHECK(4 * computed > pairs.size());
}
