// Functions that the checks of a spec row share: results with gradients, and their comparison.
#pragma once

#include <string>
#include <vector>

#include "tests/spec/spec.h"

namespace vitrine::spec {

inline constexpr double kValueFloor = 1e-3, kGradientFloor = 0.1;
// For float64, for two devices that add in different orders.
inline constexpr double kWideUnits = 5000;

struct Result {
  Tensor y;
  std::vector<Tensor> gradients;
};

/// y and the gradients of Σ cotangent·y on a tape of the given order.
Result differentiate(const Spec& spec, const std::vector<Tensor>& inputs, const Tensor& cotangent,
                     int order = 1);

/// "" if `got` is close to `want`, else the largest difference.
std::string compare(const std::string& what, const Tensor& got, const Tensor& want, double tolerance,
                    double floor);

/// The epsilon of a dtype, in which bounds of rounding errors are given. With a VITRINE_SPEC_SEED
/// it is 20 times as large, because the bounds of the rows are tight for the inputs of seed 0. With
/// other inputs the terms of a sum may cancel, and their rounding errors are then a larger share of
/// the result.
double rounding_unit(DType dtype);

/// Whether x and y have the same shape and the same bits. Both must be on one device.
bool same_bits(const Tensor& x, const Tensor& y);

/// "row, sample 0, check", the beginning of a message.
std::string label(const Spec& spec, size_t sample, const std::string& check);

}  // namespace vitrine::spec
