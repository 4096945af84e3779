// The functions of the library that correspond to the operators of ONNX, by family, and helpers
// that the families share.
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
    kMatmulAdapters, kNormAdapters, kLossAdapters, kAttentionAdapters, kOptimizerAdapters,
    kConvolutionAdapters, kRecurrentAdapters;

/// The values of an operator's integer input: axes, sizes, a shape. Nothing if the input is
/// omitted.
std::vector<int64_t> integers(const Tensor& x);
/// The same for older opsets, in which it is an attribute.
std::vector<int64_t> integers(Case c, size_t slot, const char* attribute);

}  // namespace vitrine::test
