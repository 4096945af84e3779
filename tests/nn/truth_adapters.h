// Which function of the library answers to which op of truth_cases/manifest.json.
#pragma once

#include <map>
#include <string>

#include "tests/truth_cases.h"

namespace vitrine::test {

using Params = const Settings&;
using In = const Inputs&;
using TruthAdapters = std::map<std::string, TruthAdapter>;

extern const TruthAdapters kAttentionTruthAdapters;
/// All of them.
TruthAdapters truth_adapters();

}  // namespace vitrine::test
