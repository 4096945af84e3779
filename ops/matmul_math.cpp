#include "ops/matmul_math.h"

#include <utility>

#include "core/error.h"

namespace vitrine {
namespace {

thread_local Math current = Math::float32;

}  // namespace

Math math() { return current; }

Math math_of(std::string_view name) {
  for (size_t i = 0; i < kMathNames.size(); ++i)
    if (kMathNames[i] == name) return static_cast<Math>(i);
  fail("math is {}: wanted one of {}", name, fmt::join(kMathNames, ", "));
}

MathScope::MathScope(Math math) : outer_(std::exchange(current, math)) {}
MathScope::~MathScope() { current = outer_; }

}  // namespace vitrine
