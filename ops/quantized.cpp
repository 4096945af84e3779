#include "ops/quantized.h"

#include <algorithm>
#include <cmath>

#include "core/creation.h"
#include "core/flops.h"
#include "core/record.h"
#include "core/tape.h"
#include "core/tensor_kernels.h"
#include "ops/cpu/gemm/gemm.h"
#include "ops/cpu/rows.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "ops/operands.h"
#include "ops/view.h"

namespace vitrine {

VITRINE_CPU_KERNEL(linear_int8, Tensor& y, const Tensor& x, const Tensor& levels, const Tensor& scale,
                   const Tensor& bias);

namespace {

constexpr int kZero = 128, kMost = 127;  // the level of 0, and the levels on each side of it

void check_matrix(const char* op, const Int8Matrix& w) {
  check(w.defined() && w.scale.defined() && w.levels.rank() == 2 && w.levels.dtype() == DType::uint8 &&
            w.scale.dtype() == DType::float32 && w.scale.shape() == Shape{w.levels.size(0)},
        "{}: the levels are {} and the scale is {}, wanted uint8 [N, K] and float32 [N]", op,
        describe(w.levels), describe(w.scale));
}

}  // namespace

Int8Matrix Int8Matrix::rows(int64_t begin, int64_t end) const {
  return {slice(levels, 0, begin, end), slice(scale, 0, begin, end)};
}

Int8Matrix quantize_int8(const Tensor& weight) {
  check(weight.rank() == 2 && is_floating(weight.dtype()),
        "quantize_int8: the weight is {}, wanted a floating matrix [N, K]", describe(weight));
  const Tape::Pause pause;
  const int64_t N = weight.size(0), K = weight.size(1);
  const std::vector<double> values = weight.values();
  std::vector<double> scales(static_cast<size_t>(N));
  Tensor levels = empty({N, K}, DType::uint8);
  for (int64_t i = 0; i < N; ++i) {
    const double* const row = values.data() + i * K;
    double largest = 0;
    for (int64_t j = 0; j < K; ++j) {
      check(std::isfinite(row[j]), "quantize_int8: the element [{}, {}] is {}, wanted a finite number", i, j,
            row[j]);
      largest = std::max(largest, std::abs(row[j]));
    }
    const double scale = static_cast<float>(largest / kMost);
    scales[static_cast<size_t>(i)] = scale;
    for (int64_t j = 0; j < K; ++j) {
      const double level = scale > 0 ? std::clamp<double>(std::nearbyint(row[j] / scale), -kMost, kMost) : 0;
      levels.data<uint8_t>()[i * K + j] = static_cast<uint8_t>(kZero + static_cast<int>(level));
    }
  }
  return {copy_to(levels, weight.device()), tensor(scales, {N}, DType::float32, weight.device())};
}

Tensor dequantize(const Int8Matrix& weight) {
  check_matrix("dequantize", weight);
  return (cast(weight.levels, DType::float32) - static_cast<double>(kZero)) * unsqueeze(weight.scale, 1);
}

Tensor define::linear_int8(const Tensor& x, const Int8Matrix& weight, const Tensor& bias) {
  const Tensor wide = bias.defined() ? cast(bias, DType::float32) : bias;
  return cast(vitrine::linear(cast(x, DType::float32), dequantize(weight), wide), x.dtype());
}

Tensor linear_int8(const Tensor& x, const Int8Matrix& weight, const Tensor& bias) {
  check_matrix("linear_int8", weight);
  const int64_t N = weight.levels.size(0), K = weight.levels.size(1);
  check(x.rank() >= 1 && x.size(-1) == K,
        "linear_int8: x is {} and the weight is {}, wanted [..., K] and [N, K]", x.shape(),
        weight.levels.shape());
  check(x.dtype() == DType::float32 || x.dtype() == DType::bfloat16 || x.dtype() == DType::float16,
        "linear_int8: x is {}, wanted float32, bfloat16 or float16", describe(x));
  check(!bias.defined() || bias.shape() == Shape{N}, "linear_int8: the bias is {}, wanted [{}]",
        bias.defined() ? bias.shape() : Shape(), N);
  check(!has_gradient(x) && !has_gradient(bias),
        "linear_int8: weights in 8 bits are for inference, and a gradient of {} is wanted; multiply by the "
        "weights in float32, or run under Tape::Pause",
        has_gradient(x) ? "x" : "the bias");
  if (!x.device().is_cpu() || K == 0) return define::linear_int8(x, weight, bias);
  Shape shape = x.shape();
  shape.back() = N;
  const Tensor rows = packed(reshape(x, {x.numel() / K, K}));
  Tensor y = empty({rows.size(0), N}, x.dtype());
  count_flops("linear_int8", 2.0 * static_cast<double>(y.numel()) * static_cast<double>(K));
  VITRINE_RUN(linear_int8, y, rows, packed(weight.levels), packed(weight.scale),
              bias.defined() ? packed(cast(bias, x.dtype())) : bias);
  return reshape(y, shape);
}

void cpu::linear_int8(Tensor& y, const Tensor& x, const Tensor& levels, const Tensor& scale,
                      const Tensor& bias) {
  const auto run = [&]<class S>(Type<S>) {
    gemm_int8<S>(x.size(0), levels.size(0), levels.size(1), x.data<S>(), levels.data<uint8_t>(),
                 scale.data<float>(), bias.defined() ? bias.data<S>() : nullptr, y.data<S>());
  };
  switch (x.dtype()) {
    case DType::float32: return run(Type<float>{});
    case DType::bfloat16: return run(Type<bfloat16>{});
    case DType::float16: return run(Type<float16>{});
    default: fail("linear_int8: its kernel wants float32, bfloat16 or float16, got {}", name(x.dtype()));
  }
}

}  // namespace vitrine
