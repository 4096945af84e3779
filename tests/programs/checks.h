// What must hold for every program.
#pragma once

#include <optional>
#include <string>

#include "tests/programs/program.h"

namespace vitrine::programs {

/// What disagrees: one of a few names, and the numbers.
struct Failure {
  std::string check;
  std::string message;
};

/// What a check found, and what it could not decide.
struct Outcome {
  std::optional<Failure> failure;
  bool first_settled = true;  ///< differences gave the first derivatives to enough digits
  bool second_checked = false;
  bool second_settled = true;
};

/// Holds the program's gradients against each other: backward(), gradient(), with every result
/// copied or strided, recomputed by checkpoints, through a tape of order 2, in float32, and by
/// differences of the loss. `second` adds products with the Hessian against differences of
/// gradients.
Outcome check(const Program& program, bool second);

}  // namespace vitrine::programs
