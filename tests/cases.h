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

/// One case of onnx_node_cases/manifest.json: an operator of ONNX on given tensors.
struct OnnxCase {
  std::string name, group, op;
  int64_t opset = 0;
  std::string unknown_dtype;  ///< what a tensor of the case has and ours never do; nothing is read then
  Json attributes;            ///< those that the case sets
  std::vector<Tensor> inputs, outputs;  ///< by slot; undefined where left out

  bool has(size_t slot) const { return slot < inputs.size() && inputs[slot].defined(); }
  bool wants(size_t slot) const { return slot < outputs.size() && outputs[slot].defined(); }
  /// The input of a slot; undefined where it is left out.
  Tensor in(size_t slot) const { return has(slot) ? inputs[slot] : Tensor(); }
  template <class T>
  T attribute(const char* attribute_name, T otherwise) const {
    return attributes.value(attribute_name, otherwise);
  }
};

/// All cases of the manifest; none where the folder is absent.
std::vector<OnnxCase> onnx_cases();

/// Makes the outputs of a case, by slot.
using OnnxAdapter = std::function<std::vector<Tensor>(const OnnxCase&)>;

/// Compares every output that the case wants: dtype and shape, whole numbers and bool exactly, floating ones in the norm of the
/// reference cases at 1e-9 (float64), 2e-6 (float32) or 2 units of a 16-bit type's epsilon. "" or what is wrong.
std::string check_onnx(const OnnxCase& c, const OnnxAdapter& adapter);

/// A checked-in list of what is skipped, one `name: reason` a line, # comments. The path is relative to the sources.
std::map<std::string, std::string> read_skips(const std::string& path);

/// True in the default directory of cases, where the number of cases is known.
bool has_default_cases();

}  // namespace vitrine::test
