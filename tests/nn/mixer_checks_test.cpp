// Every row of the tables of parts and bases goes through all checks of mixers.
#include "tests/nn/mixer_checks.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "core/creation.h"
#include "core/memory/allocator.h"
#include "core/profiler.h"
#include "core/random.h"
#include "core/tape.h"
#include "ops/reduce.h"
#include "tests/nn/mechanisms.h"
#include "tests/nn/modules.h"

using namespace vitrine;
using test::Depth;

namespace {

// Sanitizers make the whole list take minutes, and find what they find in its first part too.
#ifdef VITRINE_SANITIZED
constexpr Depth kDepth = Depth::pair;
#else
constexpr Depth kDepth = Depth::whole;
#endif

}  // namespace

TEST_CASE("every mechanism: gradients, causality, decoding, lengths, 16 bits, threads, GPU") {
  test::record_rows();
  auto names = test::mechanisms();
  for (const std::string& other : test::other_mixers()) names.push_back(other);
  for (const nn::MixerRow* row : nn::mixer_table(false))
    if (!row->causal) names.push_back(row->name);
  for (const test::ModuleRow& row : test::module_rows()) names.push_back(row.name);
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
    for (const Parameter& p : mixer->parameters()) CHECK(p.dtype() == DType::float32);
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

TEST_CASE("every row refuses an option that it does not have, and names the nearest that it has") {
  const auto refusal = [](const std::string& name) -> std::string {
    try {
      nn::parse_mixer(name);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  const auto check = [&](const auto& row) {
    if (row.options.empty())
      CHECK(refusal(row.name + "=7").find(row.name + " takes no value") != std::string::npos);
    for (const nn::PartOption& option : row.options) {
      const std::string wrong = option.name + option.name.back(), name = row.name + "=" + wrong + "=7";
      const std::string reason = refusal(name);
      INFO(name, ": ", reason);
      CHECK(reason.find(row.name + " has no option " + wrong) != std::string::npos);
      CHECK(reason.find("did you mean " + option.name + "?") != std::string::npos);
    }
  };
  for (const nn::MixerRow* row : nn::mixer_table(false)) check(*row);
  for (const nn::AttentionPartRow* row : nn::attention_part_table(false)) check(*row);
}

TEST_CASE("mixers of linear cost: operations, allocated bytes and the peak of memory, with gradients") {
  struct Cost {
    double flops, bytes, peak;
  };
  const auto cost = [](const std::string& name, int64_t time, bool causal) {
    const auto mixer =
        nn::make_mixer({.width = 8, .heads = 1, .context = time, .name = name, .causal = causal});
    Generator generator(1);
    const Tensor x = randn({1, time, 8}, DType::float32, Device::cpu, 0, 1, generator);
    memory::reset_peak();
    const auto start = static_cast<double>(memory::statistics().now);
    Profiler profiler;
    Tape tape;
    tape.watch(x);
    tape.gradient(sum(mixer->forward(x, {.mask = {.causal = causal}})), {x});
    double flops = 0, bytes = 0;
    for (const auto& event : profiler.events()) {
      flops += event.flops;
      bytes += static_cast<double>(event.bytes);
    }
    return Cost{flops, bytes, static_cast<double>(memory::statistics().peak) - start};
  };
  const auto exponents = [&](const std::string& name, int64_t few, int64_t many, bool causal) {
    const Cost small = cost(name, few, causal), large = cost(name, many, causal);
    const double ratio = std::log(static_cast<double>(many) / static_cast<double>(few));
    return Cost{std::log(large.flops / small.flops) / ratio, std::log(large.bytes / small.bytes) / ratio,
                std::log(large.peak / small.peak) / ratio};
  };
  const auto check_linear = [&](const std::string& name, bool causal) {
    const auto [flops, bytes, peak] = exponents(name, 1024, 16384, causal);
    INFO(name, causal ? ", causal" : "");
    CHECK(flops < 1.05);  // false for NaN, where nothing was counted
    CHECK(bytes < 1.05);
    CHECK(peak < 1.05);
    test::record(name, {{.check = "growth of operations", .error = flops, .limit = 1.05},
                        {.check = "growth of bytes", .error = bytes, .limit = 1.05},
                        {.check = "growth of memory", .error = peak, .limit = 1.05}});
  };
  for (const nn::MixerRow* row : nn::mixer_table(false))
    if (!row->linear_as.empty()) check_linear(row->linear_as, row->causal);
  for (const nn::AttentionPartRow* row : nn::attention_part_table(false))
    if (!row->linear_as.empty()) check_linear(row->linear_as, true);
  for (const char* name : {"linear+laser", "performer+laser"}) {
    check_linear(name, true);
    check_linear(name, false);
  }
  check_linear("window=32+laser", true);
  // The same measure sees a cost that is quadratic.
  const Cost quadratic = exponents("additive", 128, 512, false);
  CHECK(quadratic.flops > 1.7);
  CHECK(quadratic.bytes > 1.7);
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

TEST_CASE("every module computes something else than every other one") {
  for (const test::ModuleRow& row : test::module_rows()) {
    const auto finding = test::check_module_effect(row.name);
    CHECK_MESSAGE(finding.failure.empty(), row.name, ": ", finding.failure);
    test::record(row.name, {finding});
  }
}
