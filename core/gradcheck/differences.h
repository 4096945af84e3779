// Derivatives by finite differences. This is the only implementation;
// core/gradcheck/check_gradients.h and the tests use it.
#pragma once

#include <functional>
#include <vector>

#include "core/tensor.h"

namespace vitrine {

/// A function evaluated along a line through a point: t ↦ its values at distance t from the point,
/// which is t = 0.
using Path = std::function<std::vector<double>(double t)>;

/// The derivative at t = 0 from 4 points, (8(f(h) − f(−h)) − (f(2h) − f(−2h)))/12h, with an error
/// of O(h⁴).
std::vector<double> central_difference(const Path& f, double h);

/// A derivative by differences, and its uncertainty.
struct SettledDifference {
  std::vector<double> slope;
  /// The change to the next smaller step; infinity if no step gave finite values.
  double uncertainty;
  double h;
};
/// The same for h = scale·10⁻¹ … scale·10⁻⁸. Large steps err by curvature, small ones by rounding:
/// the one that changes least to its neighbour is returned.
SettledDifference settled_difference(const Path& f, double scale = 1);

/// x + t·direction in x's dtype; `direction` in row-major order.
Tensor shifted(const Tensor& x, const std::vector<double>& direction, double t);

/// max |got − want| / max(max |want|, floor), the norm of all errors. NaN equals NaN and an
/// infinity equals itself; any other value that is not finite gives an infinite error.
double distance(const std::vector<double>& got, const std::vector<double>& want, double floor);

}  // namespace vitrine
