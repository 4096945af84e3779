// The cases of Stanford's course CS336: what PyTorch gave for its layers, its language model and its training functions.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tests/noted.h"

namespace vitrine::test {

/// One entry of the manifest:
///   case      its name
///   computes  what it computes; without this field the name says so ("sdpa_mask" computes "sdpa")
///   settings  numbers such as num_heads, theta, eps, max_norm, lr; one that is missing is looked for in `about` ("2 heads")
///   about     prose
///   atol, rtol
/// Its tensors: inputs, `weight:NAME` with PyTorch's names of a state dict, and `expected` or `expected:NAME`.
struct Cs336Case {
  std::string name, computes, about;
  Settings settings;
  Inputs tensors;
  double atol = 0, rtol = 0;
};

Cs336Case read_cs336_case(const Json& entry, const std::filesystem::path& folder);

/// Runs the functions that the case computes and compares what they give with all that it expects. A case for which there is
/// no adapter, one that is not met, and tensors or settings that the adapter does not read are errors.
void check_cs336(const Cs336Case& c);

}  // namespace vitrine::test
