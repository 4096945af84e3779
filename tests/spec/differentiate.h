// What the checks of a spec row share: results with gradients, and how they are compared.
#pragma once

#include <string>
#include <vector>

#include "tests/spec/spec.h"

namespace vitrine::spec {

inline constexpr double kValueFloor = 1e-3, kGradientFloor = 0.1;
// Of float64, for two devices that add in different orders
inline constexpr double kWideUnits = 5000;

struct Result {
  Tensor y;
  std::vector<Tensor> gradients;
};

/// y and the gradients of Σ cotangent·y on a tape of the given order.
Result differentiate(const Spec& spec, const std::vector<Tensor>& inputs, const Tensor& cotangent,
                     int order = 1);

/// "" where `got` is near `want`, else what differs most.
std::string compare(const std::string& what, const Tensor& got, const Tensor& want, double tolerance,
                    double floor);

/// The epsilon of a dtype, in which bounds of rounding errors are given. With a VITRINE_SPEC_SEED
/// it is 20 times as large: the bounds of the rows are tight for the inputs of seed 0. With other
/// inputs the terms of a sum may cancel, and the rounding errors of the terms are then a larger
/// share of the result.
double rounding_unit(DType dtype);

/// Whether x and y have one shape and the same bits; both are on one device.
bool same_bits(const Tensor& x, const Tensor& y);

/// "row, sample 0, check", which begins a message.
std::string label(const Spec& spec, size_t sample, const std::string& check);

}  // namespace vitrine::spec
