// A case of Stanford's course CS336: PyTorch's results for a layer, the language model or a
// training function.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/noted.h"

namespace vitrine::test {

/// One entry of the manifest:
///   case      its name
///   computes  what it computes; by default from the name ("sdpa_mask" computes "sdpa")
///   settings  such as num_heads, theta, eps, max_norm, lr; a missing number is searched for in
///             `about` ("2 heads")
///   about     prose
///   atol, rtol
/// Its tensors: inputs, `weight:NAME` with PyTorch's names of a state dict, and `expected` or
/// `expected:NAME`.
struct Cs336Case {
  using Names = std::initializer_list<const char*>;

  std::string name, computes, about;
  Settings settings;
  Inputs tensors;
  double atol = 0, rtol = 0;

  /// The number with the first of these names in the settings, or else in the prose.
  std::optional<double> find_number(Names names) const;
  double number(Names names, double otherwise) const { return find_number(names).value_or(otherwise); }
  double number(Names names) const;  ///< an error if there is none

  bool has(Names names) const;
  /// The tensor with the first of these names; an error if the case has none of them.
  Tensor given(Names names) const;
  Tensor input() const { return given({"input", "in_features", "inputs", "x"}); }
  bool has_weight(const std::string& weight_name) const { return tensors.has("weight:" + weight_name); }
  Tensor weight(const std::string& weight_name) const { return tensors.at("weight:" + weight_name); }
};

Cs336Case read_cs336_case(const Json& entry, const std::filesystem::path& folder);

/// Runs the functions that the case computes, and compares the results with all expected tensors.
/// Errors: a case without an adapter; results that differ; tensors or settings that the adapter
/// does not read.
void check_cs336(const Cs336Case& c);

}  // namespace vitrine::test
