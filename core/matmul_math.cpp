#include "core/matmul_math.h"

#include <utility>

#include "core/error.h"

namespace vitrine {
namespace {

thread_local MatmulMath current = MatmulMath::float32;

}  // namespace

MatmulMath matmul_math() { return current; }

MatmulMath matmul_math_of(std::string_view name) {
  for (size_t i = 0; i < kMatmulMathNames.size(); ++i)
    if (kMatmulMathNames[i] == name) return static_cast<MatmulMath>(i);
  fail("the math of products is {}: wanted one of {}", name, fmt::join(kMatmulMathNames, ", "));
}

MatmulMathScope::MatmulMathScope(MatmulMath math) : outer_(std::exchange(current, math)) {}
MatmulMathScope::~MatmulMathScope() { current = outer_; }

}  // namespace vitrine
