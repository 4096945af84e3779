// Operators of ONNX on given tensors: onnx_node_cases/manifest.json.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "tests/noted.h"

namespace vitrine::test {

/// One case of the manifest. Unsigned integers of 32 and 64 bits, which tensors do not have, are
/// int64.
struct OnnxCase {
  std::string name, group, op;
  int64_t opset = 0;
  /// What a tensor of the case has and ours never do; nothing is read then
  std::string unknown_dtype;
  Settings attributes;          ///< those that the case sets
  Inputs inputs;                ///< by slot, "input 0"
  size_t slots = 0;             ///< of inputs, with those left out between others
  std::vector<Tensor> outputs;  ///< by slot; undefined where left out

  bool has(size_t slot) const { return inputs.has(key(slot)); }
  bool wants(size_t slot) const { return slot < outputs.size() && outputs[slot].defined(); }
  /// The input of a slot; undefined where it is left out.
  Tensor in(size_t slot) const { return inputs.get(key(slot)); }
  std::vector<Tensor> all_inputs() const;
  template <class T>
  T attribute(const char* attribute_name, T otherwise) const {
    return attributes.value(attribute_name, otherwise);
  }
  static std::string key(size_t slot) { return "input " + std::to_string(slot); }
};

/// The case of an entry of the manifest, with the tensors of its file in `folder`.
OnnxCase read_onnx_case(const Json& entry, const std::filesystem::path& folder);

/// Makes the outputs of a case, by slot.
using OnnxAdapter = std::function<std::vector<Tensor>(const OnnxCase&)>;

/// Compares every output that the case wants: dtype and shape, whole numbers and bool exactly,
/// floating ones in the norm of the reference cases at 1e-9 (float64), 2e-6 (float32) or 2 units of
/// a 16-bit type's epsilon. An error says what is wrong, which may be that the adapter has not read
/// all that the case sets.
void check_onnx(const OnnxCase& c, const OnnxAdapter& adapter);

}  // namespace vitrine::test
