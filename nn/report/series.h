// Values over steps.
#pragma once

#include <limits>
#include <string>
#include <vector>

namespace vitrine::nn::report {

/// Marks a number that is not given.
inline constexpr double not_given = std::numeric_limits<double>::quiet_NaN();

/// Values y at positions x; both have the same length.
struct Series {
  std::string name;
  std::vector<double> x, y;
  void add(double at, double value) { x.push_back(at), y.push_back(value); }
};

}  // namespace vitrine::nn::report
