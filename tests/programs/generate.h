// Makes programs, and makes failing ones smaller.
#pragma once

#include <functional>

#include "tests/programs/program.h"

namespace vitrine::programs {

/// The program of that number: 10 to 16 ops drawn from the table, the views that fit operands to
/// them, and a loss.
Program generate(uint64_t seed);

/// A smaller program for which `fails` is still true: without ops of the end, of the beginning or
/// between, as far as operands stay in their domains.
Program shrunk(Program program, const std::function<bool(const Program&)>& fails);

}  // namespace vitrine::programs
