// Which function of the library answers to which operator of ONNX, by family, and what the families
// share.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/onnx_cases.h"

namespace vitrine::test {

using Case = const OnnxCase&;
using Outputs = std::vector<Tensor>;
using OnnxAdapters = std::map<std::string, OnnxAdapter>;

extern const OnnxAdapters kElementwiseAdapters, kShapeAdapters, kIndexAdapters, kReductionAdapters,
    kMatmulAdapters, kNormAdapters, kLossAdapters, kAttentionAdapters, kOptimizerAdapters;

/// What an operator takes as a tensor of whole numbers: axes, sizes, a shape. None where it is left
/// out.
std::vector<int64_t> integers(const Tensor& x);
/// The same where older opsets have it as an attribute.
std::vector<int64_t> integers(Case c, size_t slot, const char* attribute);

}  // namespace vitrine::test
