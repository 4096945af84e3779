// Which function of the library answers to which op of the reference cases, and their runner.
#pragma once

#include <map>
#include <string>

#include "tests/cases.h"
#include "tests/data.h"
#include "tests/truth_cases.h"

namespace vitrine::test {

using Params = const Settings&;
using In = const Inputs&;
using TruthAdapters = std::map<std::string, TruthAdapter>;

extern const TruthAdapters kAttentionTruthAdapters, kCompositionTruthAdapters, kRecurrentTruthAdapters;
/// All of them.
TruthAdapters truth_adapters();

/// What came of a folder's cases.
struct TruthRun {
  CaseRunner in_float64, in_float32;
};
/// Runs the folder's cases but those in truth_cases_skips.txt, in float32 those that say how far it
/// may be off.
TruthRun run_truth_cases(const CaseFolder& folder, Device device);
/// Checks every folder of the name with doctest: values and gradients, and that `expected` golden
/// cases ran. How far float32 may be off was measured for the golden cases. For other cases it is
/// reported and is not a failure.
void check_truth_cases(const std::string& name, int expected, Device device);

}  // namespace vitrine::test
