// The functions of the library that compute the ops of the reference cases, and their runner.
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

extern const TruthAdapters kAttentionTruthAdapters, kBlockTruthAdapters, kCompositionTruthAdapters,
    kConvolutionTruthAdapters, kCtcTruthAdapters, kGenerationTruthAdapters, kLinearTruthAdapters,
    kRecurrentTruthAdapters, kScanTruthAdapters, kScoreTruthAdapters, kViewTruthAdapters;
/// All adapters.
TruthAdapters truth_adapters();

/// The results of a folder's cases.
struct TruthRun {
  CaseRunner in_float64, in_float32;
};
/// Runs the cases of the folder, except those in truth_cases_skips.txt. Cases that have a tolerance
/// for float32 also run in float32.
TruthRun run_truth_cases(const CaseFolder& folder, Device device);
/// Checks every folder of this name with doctest: values and gradients, and that `expected` golden
/// cases ran. The float32 tolerance was measured for the golden cases. For other cases a float32
/// difference is reported and is not a failure.
void check_truth_cases(const std::string& name, int expected, Device device);

}  // namespace vitrine::test
