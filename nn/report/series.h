// Values over steps.
#pragma once

#include <limits>
#include <string>
#include <vector>

namespace vitrine::nn::report {

/// The value of a number that was not given.
inline constexpr double not_given = std::numeric_limits<double>::quiet_NaN();

/// y over x. Both hold the same number of values.
struct Series {
  std::string name;
  std::vector<double> x, y;
  void add(double at, double value) { x.push_back(at), y.push_back(value); }
};

}  // namespace vitrine::nn::report
