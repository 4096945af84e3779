// The table of ops that random programs are made of: one row an op.
#pragma once

#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/random.h"
#include "tests/programs/program.h"

namespace vitrine::programs {

/// Random choices. The same seed makes the same ones.
class Choice {
 public:
  explicit Choice(uint64_t seed) : generator_(seed) {}
  int64_t below(int64_t n) { return generator_.next_below(n); }
  /// Both included
  int64_t between(int64_t low, int64_t high) { return low + below(high - low + 1); }
  bool chance(double p) { return generator_.next_uniform() < p; }
  /// With two digits, so that a printed program is exact.
  double number(double low, double high) {
    return std::round((low + (high - low) * generator_.next_uniform()) * 100) / 100;
  }
  /// A place among n, the last ones more often.
  size_t recent(size_t n);

 private:
  Generator generator_;
};

/// Where an operand must lie, and the points from which its elements keep away.
struct Domain {
  double low = -10, high = 10;
  std::vector<double> kinks = {};
};

/// The shapes of the operands, and the rest of the call.
struct Fit {
  std::vector<Shape> operands;
  Params params = {};
};

/// A row.
struct Op {
  std::string name;  ///< that of the spec row
  /// The call as C++: $0 is an operand, %0 an integer, ~0 a number; $0*, %0* and ~0* are all from
  /// there on.
  std::string text;
  /// The shape rule: makes a call whose first operand has about the given shape; nothing where the
  /// op does not fit.
  std::function<std::optional<Fit>(Choice&, const Shape&)> fit;
  std::function<Tensor(const Values&, const Params&)> run;
  /// Of each operand; the last one holds for those that follow
  std::vector<Domain> domains = {{}};
  /// What else operands must satisfy.
  std::function<bool(const Values&, const Params&)> holds = nullptr;
  double least = 0;       ///< no element of the result is nearer to 0
  int weight = 1;         ///< how often it is taken
  bool constant = false;  ///< its result is a constant to the tape
  bool draws = false;     ///< it draws random numbers

  const Domain& domain(size_t operand) const { return domains[std::min(operand, domains.size() - 1)]; }
};

/// Elements have to be this far from kinks and from each other where their order matters.
inline constexpr double kMargin = 0.02;

const std::vector<Op>& table();
/// The row of that name; an unknown name is an error.
const Op& op(const std::string& name);

// The table's parts.
std::vector<Op> elementwise_ops();
std::vector<Op> shape_ops();
std::vector<Op> reduction_ops();
std::vector<Op> kernel_ops();
std::vector<Op> convolution_ops();
std::vector<Op> tape_ops();

// Shape rules, and what they share.
std::optional<Fit> same(Choice& choice, const Shape& x);  ///< x alone
/// x and a shape that broadcasts with it
std::optional<Fit> broadcasting(Choice& choice, const Shape& x);
std::optional<Fit> two_alike(Choice& choice, const Shape& x);
/// An axis, possibly counted from the end; x must have one.
int64_t any_axis(Choice& choice, const Shape& x);
/// A shape rule: x, and one of its axes.
std::optional<Fit> one_axis(Choice& choice, const Shape& x);
/// Some axes of x; none stand for all.
std::vector<int64_t> some_axes(Choice& choice, const Shape& x);
std::vector<int64_t> tail(const std::vector<int64_t>& values, size_t from);
/// Whether all elements of x are apart, or those along each line of an axis.
bool separated(const Tensor& x);
bool separated(const Tensor& x, int64_t axis);

}  // namespace vitrine::programs
