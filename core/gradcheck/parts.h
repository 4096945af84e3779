// Functions that the parts of check_gradients share. Not for users.
#pragma once

#include <string>
#include <vector>

#include "core/gradcheck/check_gradients.h"
#include "core/gradcheck/differences.h"

namespace vitrine::gradients {

using Function = std::function<Tensor(const std::vector<Tensor>&)>;

/// The function at the point, and the tape's results for it.
struct Problem {
  const Function& f;
  const std::vector<Tensor>& inputs;
  const std::vector<std::string>& names;  ///< of the inputs, for messages
  const GradientCheckOptions& options;
  Probe probe;
  Tensor y;
  std::vector<double> weights;                 ///< the cotangent c of y
  std::vector<std::vector<double>> gradients;  ///< of Σ c·y, per input
  std::vector<std::vector<double>>
      jacobians;  ///< per input, element by element of it all outputs; for Probe::jacobian
  /// Per input, why the tape does not lead to it; else empty.
  std::vector<std::string> disconnected;
  std::vector<std::string> cuts;  ///< "detach (op 3)"
  std::string low_precision;      ///< what is computed in less than float64; may be empty
  std::string failure;            ///< the error that the backward threw; may be empty
};

/// Checks a function whose inputs have names.
GradientReport check_named(const Function& f, const std::vector<Tensor>& inputs,
                           const std::vector<std::string>& names, const GradientCheckOptions& options);

/// Compares the first derivatives of all inputs by the methods in the options, and fills in the
/// report. The report already lists the inputs by name.
void check_first_order(const Problem& p, GradientReport& report);
/// Describes what is compared. `elements` is the number of elements of all inputs together.
std::string describe_probe(const Problem& p, int64_t elements);

struct Diagnosis {
  Cause cause = Cause::unknown;
  std::string explanation;
};

/// The likely cause of a wrong first derivative of input k, whose worst element is known.
Diagnosis diagnose(const Problem& p, size_t k, int64_t worst);
/// The cause that the ratios alone show: sign, factor, zero, not finite or unknown. Ratios count as
/// equal within `tolerance`.
Diagnosis diagnose_ratios(const std::vector<double>& analytic, const std::vector<double>& numeric,
                          double tolerance);
/// The likely cause of an error that a backward threw.
Diagnosis diagnose_failure(const std::string& error);
/// Why the Taylor remainder falls too slowly although each element agrees with differences.
Diagnosis diagnose_remainder(const Problem& p);

/// Fills in the tape's results.
void differentiate(Problem& p);
/// The derivatives of all outputs along a direction of input k, by dual numbers.
std::vector<double> tangents(const Problem& p, size_t k, const std::vector<double>& direction);
/// Why f cannot run on dual numbers; "" if it can.
std::string refuses_duals(const Problem& p);
/// The exponent with which the remainder of the first-order Taylor polynomial falls; 0 if the
/// remainder is rounding error only.
double taylor_slope(const Problem& p);
/// g₁ = ∂⟨c, y⟩/∂x, g₂ = ∂⟨u, g₁⟩/∂x, … up to `order`, all from one tape. The derivatives of all
/// inputs are concatenated.
std::vector<double> derivatives(const Problem& p, const std::vector<Tensor>& at,
                                const std::vector<std::vector<double>>& directions, int order);

double dot(const std::vector<double>& x, const std::vector<double>& y);
std::vector<double> unit(int64_t size, int64_t element);
/// Standard normal numbers, one per element of x.
std::vector<double> random_direction(const Tensor& x, uint64_t seed);
std::vector<Tensor> copies(const std::vector<Tensor>& xs);
/// "[2, 1]": the index of an element, given its position in row-major order.
std::string place(const Shape& shape, int64_t element);
/// All outputs along a line in input k.
Path path_along(const Problem& p, size_t k, std::vector<double> direction);
/// Σ weights·f.
Path weighted(Path f, std::vector<double> weights);
/// The unit of the step size at an element: 1, or the element's magnitude if that is larger.
double step_scale(const Problem& p, size_t k, int64_t element);

}  // namespace vitrine::gradients
