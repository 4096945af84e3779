// Checks gradients. The tape's gradients are compared with derivatives from methods that share no
// code with the tape. If they disagree, the report names a likely cause.
//
//   const GradientReport report =
//       check_gradients([](const auto& xs) { return my_op(xs[0], xs[1]); }, {x, w});
//   std::cout << report;   // or CHECK(report.passed)
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "core/parameter.h"
#include "core/tape.h"
#include "core/tensor.h"

namespace vitrine {

/// What is compared. c is a random cotangent of y's shape.
enum class Probe {
  /// The most thorough one with at most about 10,000 evaluations or comparisons; 1,000 in a build
  /// with sanitizers
  automatic,
  jacobian,  ///< every ∂y/∂x: a backward pass per output, 4 evaluations per element of the inputs
  /// Every element of the gradient of Σ c·y: one backward pass, 4 evaluations per element
  elements,
  directions,  ///< the change of Σ c·y along 4 random directions per input
};

/// Whether f also runs on dual numbers (core/gradcheck/dual.h). They are exact, but all of f must
/// support them, and run on the CPU.
enum class Duals { no, where_possible, yes };

/// Options of the check. The defaults are for float64.
struct GradientCheckOptions {
  Probe probe = Probe::automatic;
  /// The highest derivative; each from the second on is compared with differences of the one below.
  int order = 1;
  /// 4-point central differences, with smaller and larger steps if they disagree.
  bool differences = true;
  bool taylor = true;  ///< f(x + h·u) − f(x) − h·⟨∇f, u⟩ must fall as h²
  Duals duals = Duals::where_possible;
  /// The smallest limit for the error of differences. The limit of an input is this, or 10 times
  /// the change from one step to half of it if that is more, but at most 1e-6. For the second order
  /// it is 1e-6, and 10 times as much for each further order.
  double tolerance = 1e-9;
  double dual_tolerance = 1e-12;  ///< for dual numbers
  /// Errors are max |got − want| / max(max |want|, floor), per input.
  double floor = 0.1;
  uint64_t seed = 7;  ///< seed of the cotangent and the directions
  /// Called with the tape before each backward pass of the first order, for hooks.
  std::function<void(Tape&)> prepare = {};
  /// Parameters that f captures and whose gradients are also checked. A parameter that does not
  /// require a gradient is a constant. nn/check_gradients.h fills this in for a module.
  std::vector<Parameter> parameters = {};
};

/// A likely cause of a wrong gradient.
enum class Cause {
  none,           ///< nothing is wrong
  sign,           ///< the negative of the right gradient
  factor,         ///< the same multiple of the right gradient everywhere
  transposed,     ///< the last two axes are swapped
  missing_sum,    ///< not summed over an axis along which the input was broadcast
  kink,           ///< the function has no derivative at this point
  low_precision,  ///< something is computed in float32 or less: the differences are noise
  cut,            ///< the tape does not lead to the input: detach, an integer op, an unrecorded op
  zero,           ///< zero but should not be, although the tape leads to the input
  random,         ///< the function gives different values at the same point
  not_finite,     ///< NaN or infinity
  failed,         ///< the backward (or the run on dual numbers, if requested) threw an error
  unknown,        ///< wrong, for none of these causes
};
std::string_view name(Cause cause);

/// The result of the check. Printed, it is a few lines with all findings.
struct GradientReport {
  struct Input {
    std::string name;  ///< "input 0", or the parameter's name
    std::string what;  ///< "float64[3, 5]"
    bool passed = true;
    bool used = true;  ///< some derivative is nonzero
    /// The errors, −1 if not measured. higher_errors[0] is the error of the second derivatives.
    double difference_error = -1, dual_error = -1;
    double limit = 0;  ///< of difference_error
    std::vector<double> higher_errors = {};
    /// The worst element, with its derivative by the tape and by the better reference. `output` is
    /// empty unless a Jacobian was compared.
    std::string element = {}, output = {};
    double analytic = 0, numeric = 0, uncertainty = 0;
  };
  bool passed = true;
  std::string method;  ///< what was compared, in words
  std::vector<Input> inputs;
  size_t worst = 0;  ///< the input to which the cause applies
  double taylor_slope =
      0;  ///< 2 or more is right, 1 is wrong; 0: not measured or the remainder is rounding only
  std::string dual_note;  ///< why f did not run on dual numbers; may be empty
  Cause cause = Cause::none;
  std::string explanation;  ///< one sentence about the cause; empty if the check passed

  /// The largest of all errors measured.
  double error() const;
};

/// The report as text, in the form that the README shows.
std::string to_string(const GradientReport& report);
std::ostream& operator<<(std::ostream& out, const GradientReport& report);

/// Checks the gradients of y = f(inputs) at the given point. f must read the inputs from its
/// argument (captured tensors are constants, except options.parameters), return the same values
/// each time and be differentiable at the point. Otherwise the report says which of these fails.
/// Inputs should be float64: with other dtypes the differences are coarse, and the report says so.
/// Errors: no inputs, an input or y that is not floating, and any error that f throws. Works while
/// a tape records.
GradientReport check_gradients(const std::function<Tensor(const std::vector<Tensor>&)>& f,
                               const std::vector<Tensor>& inputs, const GradientCheckOptions& options = {});

}  // namespace vitrine
