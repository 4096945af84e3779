// Reference cases computed independently of this library: what the runners of ../shared/data share.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/tensor.h"

namespace vitrine::test {

using Json = nlohmann::json;
using Tensors = std::map<std::string, Tensor>;

/// One case of truth_cases/manifest.json.
struct TruthCase {
  std::string name, op;
  Json params;
  double float32_output_drift = 0, float32_gradient_drift = 0;
  std::vector<std::string> inputs, gradients;  ///< names
  Tensors tensors;                             ///< in.…, out.…, cot.…, grad.…
};

/// All cases of the manifest; none where the folder is absent.
std::vector<TruthCase> truth_cases();

using Function = std::function<Tensor(const Tensors&)>;

/// Runs f on the case's inputs, by name, in float64, and compares value and gradients at 1e-9 in the norm of the reference:
/// max |got − want| ≤ tolerance·max(max |want|, floor), the floor 1e-3 for values and 0.1 for gradients. "" or what is wrong.
std::string check_truth(const TruthCase& c, const Function& f);
/// The same in float32 against float64 on the same rounded inputs, at 2e-6 or ten times what the plain formula loses.
std::string check_float32(const TruthCase& c, const Function& f);

/// A checked-in list of what is skipped, one `name: reason` a line, # comments. The path is relative to the sources.
std::map<std::string, std::string> read_skips(const std::string& path);

/// True in the default directory of cases, where the number of cases is known.
bool has_default_cases();

}  // namespace vitrine::test
