// One row per differentiable operation: how to call it, and its sample inputs. All the checks below
// work from the row, without further code. This header is installed, so that ops and attention
// mechanisms outside this project can be checked in the same way:
//
//   const std::string errors =
//       spec::check_all({{"snake", [](const auto& x) { return snake(x[0]); }, {{{{3, 5}}}}}});
//   CHECK_MESSAGE(errors.empty(), errors);
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/gradcheck/differences.h"
#include "core/tape.h"
#include "core/tensor.h"

namespace vitrine::spec {

/// One input: a shape and the range from which its float64 values are drawn. Choose ranges without
/// kinks and ties.
struct Input {
  Shape shape;
  double low = -2;
  double high = 2;
  bool separated = false;  ///< evenly spaced values in random order: no two are close
};

using Call = std::function<Tensor(const std::vector<Tensor>&)>;

/// A row. `call` returns the same values at every call, in every floating dtype and for dual64.
struct Spec {
  std::string name;  ///< under which it is recorded; of a composite, any
  /// Calls the op on its differentiable inputs; constants are captured.
  Call call;
  std::vector<std::vector<Input>> samples;  ///< several sets of inputs
  /// The highest derivative that is checked; 1 for ops that cut their gradient.
  int order = 3;
  double float32_units = 8;   ///< allowed error in units of float32's epsilon
  double bfloat16_units = 1;  ///< and of bfloat16's; negative: not defined there
  double float16_units = 1;   ///< and of float16's
  bool not_finite = true;     ///< whether NaN and ±∞ as inputs give what plain functions give
  /// Inputs up to this magnitude give the same results in float32 as in float64.
  double largest = 1e30;
  /// The op consists of other ops only: nothing is recorded under its name.
  bool composite = false;
  std::string reason = {};  ///< why a bound differs from the defaults
  /// Its kernels have CUDA versions, which are checked if there is a GPU.
  bool on_gpu = true;
  /// A GPU's error in float16 may be this many times the error that float16_units allow.
  double gpu_float16_times = 1;
};

/// The rows of the library's own operations.
const std::vector<Spec>& rows();

/// The inputs of sample number `sample` of a row: float64, the same values at every call.
std::vector<Tensor> draw(const Spec& spec, size_t sample);
/// A random cotangent of y's shape: float64, standard normal.
Tensor draw_cotangent(const Tensor& y, uint64_t seed);

/// A memory layout of a tensor's elements.
struct Layout {
  const char* name;
  /// A tensor of x's shape, dtype and device in this layout; undefined if the layout does not exist
  /// for x's rank. It has the values of x or, if elements share memory, some of these values.
  Tensor (*of)(const Tensor& x);
};
/// Transposed, sliced with gaps, flipped (negative strides), expanded (stride 0) and overlapping.
const std::vector<Layout>& layouts();

using vitrine::distance;  // the norm in which errors are measured

/// `prepare` may change the tape before its backward, to plant a mistake.
using Prepare = std::function<void(Tape&)>;

/// Each check returns "", or what is wrong: row, sample, input, element, got and wanted. The checks
/// of derivatives call check_gradients. The checks are: kernel against definition; gradient against
/// 4-point differences (1e-6) and dual numbers (1e-12); derivatives up to spec.order; each low
/// precision, and on a GPU also float64, against the CPU's float64; NaN, ±∞, large and small
/// numbers and zero; inputs and cotangents in all layouts, in each dtype on each instruction set;
/// 1, 2, 3 and 7 threads. With `only`, a check that runs in each dtype runs in this one.
std::string check_values(const Spec& spec, size_t sample);
std::string check_differences(const Spec& spec, size_t sample, const Prepare& prepare = {});
std::string check_dual(const Spec& spec, size_t sample, const Prepare& prepare = {});
std::string check_higher_orders(const Spec& spec, size_t sample);
std::string check_low_precision(const Spec& spec, size_t sample, Device device = Device::cpu,
                                std::optional<DType> only = {});
std::string check_extremes(const Spec& spec, size_t sample, Device device = Device::cpu,
                           std::optional<DType> only = {});
std::string check_layouts(const Spec& spec, size_t sample, Device device = Device::cpu,
                          std::optional<DType> only = {});
std::string check_threads(const Spec& spec, size_t sample);
/// Requires gradients for each subset of the inputs. The inputs in the subset get the same bits as
/// when all inputs require gradients. Neither the op nor its backward changes an input.
std::string check_subsets(const Spec& spec, size_t sample);

/// The gradient of each input with its sign flipped, multiplied by 1.01, or set to zero must fail
/// check_differences on some sample. A composite must have no such gradient: the ops of which it
/// consists have their own rows, which check_names checks.
std::string check_mutations(const Spec& spec);
/// Every name that the row records must have a row: this row, one of rows() or one of `others`.
std::string check_names(const Spec& spec, const std::vector<Spec>& others = {});

/// All these checks on all samples of the given rows. Returns "" or the errors, one or more lines
/// each. An exception is an error too.
std::string check_all(const std::vector<Spec>& rows);

}  // namespace vitrine::spec
