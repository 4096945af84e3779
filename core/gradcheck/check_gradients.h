// Is the gradient right? The tape's answer is held against ways to differentiate that share no code
// with it, and where they disagree a likely cause is named.
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

/// What is compared. With c a random cotangent of y's shape:
enum class Probe {
  automatic,  ///< the most thorough that costs at most some 10,000 evaluations or comparisons
  jacobian,   ///< every ∂y/∂x: a backward pass per output, 4 evaluations per element of the inputs
  /// Every element of the gradient of Σ c·y: one backward pass, 4 evaluations per element
  elements,
  directions,  ///< the change of Σ c·y along 4 random directions per input
};

/// Whether f is also run on dual numbers (core/gradcheck/dual.h): exact, but all of f must be able
/// to, and run on the CPU.
enum class Duals { no, where_possible, yes };

/// What is checked, and how strictly. The defaults are those for float64.
struct GradientCheckOptions {
  Probe probe = Probe::automatic;
  /// Highest derivative; from the second on each against differences of the one below
  int order = 1;
  /// 4-point central differences, with smaller and larger steps where they disagree
  bool differences = true;
  bool taylor = true;  ///< f(x + h·u) − f(x) − h·⟨∇f, u⟩ must fall as h²
  Duals duals = Duals::where_possible;
  /// The least limit for differences. The limit of an input is 10 times the change from one step to
  /// half of it where that is more, and at most 1e-6. From the second order on it is 1e-6, and 10
  /// times as much for each order more.
  double tolerance = 1e-9;
  double dual_tolerance = 1e-12;  ///< for dual numbers
  /// Errors are max |got − want| / max(max |want|, floor), per input
  double floor = 0.1;
  uint64_t seed = 7;  ///< of cotangent and directions
  /// Called with the tape before each backward pass of the first order, for hooks.
  std::function<void(Tape&)> prepare = {};
  /// Parameters that f captures and whose gradients are checked too; those that do not require a
  /// gradient are constants. nn/check_gradients.h fills this in for a module.
  std::vector<Parameter> parameters = {};
};

/// A likely cause of what is wrong.
enum class Cause {
  none,           ///< nothing is wrong
  sign,           ///< the negative of what it should be
  factor,         ///< everywhere the same multiple of what it should be
  transposed,     ///< the last two axes are exchanged
  missing_sum,    ///< not summed over an axis along which the input was broadcast
  kink,           ///< the function has no derivative here
  low_precision,  ///< something is computed in float32 or less: the differences are noise
  cut,            ///< the tape does not lead to the input: detach, an integer op, an unrecorded op
  zero,           ///< zero where it should not be, although the tape leads there
  random,         ///< the function gives different values at the same point
  not_finite,     ///< NaN or infinity
  failed,         ///< the backward (or, where asked for, the run on dual numbers) threw an error
  unknown,        ///< wrong, in no way that is known
};
std::string_view name(Cause cause);

/// The outcome; printed, it is a few lines that say all of it.
struct GradientReport {
  struct Input {
    std::string name;  ///< "input 0", or the parameter's name
    std::string what;  ///< "float64[3, 5]"
    bool passed = true;
    bool used = true;  ///< some derivative is not 0
    /// The errors, −1 where not measured. higher_errors[0] is that of the second derivatives.
    double difference_error = -1, dual_error = -1;
    double limit = 0;  ///< of difference_error
    std::vector<double> higher_errors = {};
    /// The worst element, and what the tape and the better reference say of it. `output` is empty
    /// unless a Jacobian was compared.
    std::string element = {}, output = {};
    double analytic = 0, numeric = 0, uncertainty = 0;
  };
  bool passed = true;
  std::string method;  ///< what was compared, in words
  std::vector<Input> inputs;
  size_t worst = 0;  ///< the input that the cause is about
  double taylor_slope =
      0;  ///< 2 or more is right, 1 is wrong; 0: not measured or the remainder is rounding only
  std::string dual_note;  ///< why there was no run on dual numbers; may be empty
  Cause cause = Cause::none;
  std::string explanation;  ///< of the cause, in a sentence; empty where all is right

  /// The largest of all errors measured.
  double error() const;
};

/// The report in lines, as the README shows one.
std::string to_string(const GradientReport& report);
std::ostream& operator<<(std::ostream& out, const GradientReport& report);

/// Checks the gradients of y = f(inputs) at that point. f must read the inputs from its argument
/// (captured tensors are constants, but for options.parameters), give the same values each time and
/// be differentiable there; else the report says which of these fails. Inputs should be float64:
/// differences of others are coarse, and the report then says so. Errors: no inputs, or an input or
/// y without a floating dtype; and what f itself throws. Works while a tape records.
GradientReport check_gradients(const std::function<Tensor(const std::vector<Tensor>&)>& f,
                               const std::vector<Tensor>& inputs, const GradientCheckOptions& options = {});

}  // namespace vitrine
