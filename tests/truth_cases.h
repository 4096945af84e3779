// Values and gradients of the cases that a folder lists in its manifest.json:
// tests/data/truth_cases/README.md.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/noted.h"

namespace vitrine::test {

/// What the plain formula loses in float32; 0 where it is not finite there, so that ours must do
/// better.
struct Float32Drift {
  double output = 0, gradient = 0;
};

/// One case of the manifest.
struct TruthCase {
  std::string name, op;
  Settings params;
  std::optional<Float32Drift> float32_drift;            ///< none where the manifest does not say
  std::vector<std::string> inputs, outputs, gradients;  ///< names
  Tensors tensors;                                      ///< in.…, out.…, cot.…, grad.…
};

/// The case of an entry of the manifest, with the tensors of its file in `folder`.
TruthCase read_truth_case(const Json& entry, const std::filesystem::path& folder);

/// The outputs of a case, in the order of the manifest. The gradients are those of the first.
struct Outputs : std::vector<Tensor> {
  Outputs(const Tensor& y) : std::vector<Tensor>{y} {}  // most cases have one
  using std::vector<Tensor>::vector;
};
/// Makes the outputs of a case.
using TruthAdapter = std::function<Outputs(const Settings& params, const Inputs& inputs)>;

/// Runs the adapter in float64 on a device and compares value and gradients at 1e-9 in the norm of
/// the reference: max |got − want| ≤ tolerance·max(max |want|, floor), the floor 1e-3 for values
/// and 0.1 for gradients. Integers and booleans must be equal. An error says what is wrong, which
/// may be that the adapter has not read all that the case sets.
void check_truth(const TruthCase& c, const TruthAdapter& adapter, Device device = Device::cpu);
/// The same in float32 against float64 on the CPU and the same rounded inputs, at 2e-6 or ten times
/// what the plain formula loses (on a GPU eight times that). A case that does not say what that is
/// cannot be checked. The floor for gradients is 0.1 times the largest gradient of the case, if
/// that is more.
void check_float32(const TruthCase& c, const TruthAdapter& adapter, Device device = Device::cpu);

}  // namespace vitrine::test
