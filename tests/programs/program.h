// A program as data: float64 inputs, and steps that apply rows of the table of ops to values before
// them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/tensor.h"

namespace vitrine::programs {

struct Op;
using Values = std::vector<Tensor>;

/// What one call of an op passes besides its operands: axes, sizes and indices, and factors.
struct Params {
  std::vector<int64_t> ints = {};
  std::vector<double> numbers = {};
};

/// One call. Operands are numbers of values: inputs count from 0, the step i follows as
/// inputs.size() + i.
struct Step {
  const Op* op;
  std::vector<size_t> operands;
  Params params = {};
};

/// The last step is the loss, a scalar.
struct Program {
  uint64_t seed = 0;
  Values inputs;
  std::vector<Step> steps;

  size_t size() const { return inputs.size() + steps.size(); }
};

/// How each value is laid out before the next step reads it.
enum class Layout {
  as_written,  ///< views are views
  copies,      ///< every result has memory of its own
  strided,     ///< every result is a view with gaps, swapped axes or a reversed axis
};

struct RunOptions {
  Layout layout = Layout::as_written;
  /// The steps whose results are kept: each is a checkpoint that recomputes the steps since those
  /// kept before. Empty: none.
  std::vector<bool> kept = {};
  /// Every operand and every result is multiplied by float64 numbers up to this far from 1, drawn
  /// by `noise_seed`.
  double noise = 0;
  uint64_t noise_seed = 0;
  /// The results of steps that cut gradients (detach, for one), by step: recorded where undefined,
  /// else used in their place, so that differences see them as the constants that they are to the
  /// tape.
  Values* constants = nullptr;
};

/// The value of every input and step; undefined for steps inside a checkpoint. Starts the thread's
/// generator anew.
Values run(const Program& program, const Values& inputs, const RunOptions& options = {});

/// The program in lines of C++, a line a value.
std::string to_string(const Program& program);

/// "" or the first step whose operands or result are outside the domain of its op, so that
/// derivatives may not exist or differences may not find them.
std::string outside_domain(const Program& program, const Values& values);
/// Whether the program has inputs, and every step's operands are in the domain of its op. Some ops
/// refuse other operands.
bool is_inside(const Program& program);

}  // namespace vitrine::programs
