// Derivatives by differences: the one implementation, for core/gradcheck/check_gradients.h and for
// the tests.
#pragma once

#include <functional>
#include <vector>

#include "core/tensor.h"

namespace vitrine {

/// What is seen when a function is evaluated along a line through a point: t ↦ its values there; t
/// = 0 is the point.
using Path = std::function<std::vector<double>(double t)>;

/// The derivative at t = 0 by 4 points, (8(f(h) − f(−h)) − (f(2h) − f(−2h)))/12h: the error is
/// O(h⁴).
std::vector<double> central_difference(const Path& f, double h);

/// A derivative by differences, and how far to trust it.
struct SettledDifference {
  std::vector<double> slope;
  /// How much it changed to the next smaller step: infinity where none gave finite values
  double uncertainty;
  double h;
};
/// The same for h = scale·10⁻¹ … scale·10⁻⁸. Large steps err by curvature, small ones by rounding:
/// the one that changes least to its neighbour is returned.
SettledDifference settled_difference(const Path& f, double scale = 1);

/// x + t·direction in x's dtype; `direction` in row-major order.
Tensor shifted(const Tensor& x, const std::vector<double>& direction, double t);

/// max |got − want| / max(max |want|, floor): the norm in which errors are measured. NaN equals
/// NaN, an infinity itself; else what is not finite is infinitely far.
double distance(const std::vector<double>& got, const std::vector<double>& want, double floor);

}  // namespace vitrine
