// How float32 matrices are multiplied.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace vitrine {

/// float32: as they are, the default. bfloat16: the operands of a product are first rounded to
/// bfloat16, with 8 significant bits, and the products are summed in float32. CPUs and GPUs
/// multiply bfloat16 several times as fast. All tensors remain float32, as do sums, norms and the
/// optimizer. (On NVIDIA's GPUs the same idea with 11 bits is called TF32.)
enum class MatmulMath : uint8_t { float32, bfloat16 };

inline constexpr std::array<std::string_view, 2> kMatmulMathNames = {"float32", "bfloat16"};

/// The way of the calling thread.
MatmulMath matmul_math();
/// The way with this name; another name is an error.
MatmulMath matmul_math_of(std::string_view name);

/// While this object lives, matmul, linear and linear_gelu_tanh of float32 tensors on the calling
/// thread multiply in another way. Their gradients are multiplied in the same way, also when
/// backward runs after the end of the scope. Fused attention keeps its own products.
class MatmulMathScope {
 public:
  explicit MatmulMathScope(MatmulMath math);
  ~MatmulMathScope();
  MatmulMathScope(const MatmulMathScope&) = delete;
  MatmulMathScope& operator=(const MatmulMathScope&) = delete;

 private:
  MatmulMath outer_;
};

}  // namespace vitrine
