// The matrix products of the operations: chooses and runs a step of the ladder (cuda/matmul/).
#include <algorithm>
#include <array>
#include <string>

#include "cuda/ladder.h"
#include "cuda/launch.h"
#include "cuda/matmul/steps.h"
#include "ops/kernels.h"

namespace vitrine::cuda {
namespace {

constexpr std::array<MatmulStep, 6> kSteps = {{
    {"naive", naive_supports, naive_matmul},
    {"tiled", tiled_supports, tiled_matmul},
    {"blocked", blocked_supports, blocked_matmul},
    {"tensor_core", tensor_core_supports, tensor_core_matmul},
    {"hopper", hopper_supports, hopper_matmul},
    {"cublas", cublas_supports, cublas_matmul},
}};

/// The layout of the matrices of t, for the batch of z.
Operand operand(const Tensor& t, const Tensor& z) {
  const int r = t.rank();
  Operand o{t.strides()[r - 2], t.strides()[r - 1], {}};
  for (int axis = 0; axis < z.rank() - 2; ++axis) {
    const int own = axis - (z.rank() - r);
    o.batch[axis] = own < 0 || t.shape()[own] == 1 ? 0 : t.strides()[own];
  }
  return o;
}

/// The stride of an axis of size 1 has no meaning. It becomes the stride of a packed matrix, so
/// that one of the two strides is 1.
Operand readable(Operand o, int64_t rows, int64_t columns) {
  if (columns == 1) o.column = o.row == 1 ? rows : 1;
  if (rows == 1) o.row = o.column == 1 ? columns : 1;
  return o;
}

constexpr const char* kVariable = "VITRINE_CUDA_MATMUL";

const std::string& setting() {
  static const std::string text = ladder_setting(kVariable);
  return text;
}

void multiply(const Product& p) { choose_matmul(setting(), p).run(p); }

}  // namespace

std::span<const MatmulStep> matmul_steps() { return kSteps; }

namespace {

/// Whether cuBLASLt has only slow kernels for p, which read and write single elements: a line of a
/// 16-bit matrix is not a multiple of 16 bytes long. (On an H200, the logits of 50257 tokens take
/// it five times as long as our step, even if lines begin at multiples of 16 bytes.)
bool is_uneven(const Product& p) {
  constexpr int64_t kTogether = 8, kTile = 128;  // a smaller product does not matter
  const int64_t lines[] = {p.N, p.x.by_rows() ? p.K : p.M, p.y.by_rows() ? p.N : p.K};
  return is_low_precision(p.dtype) && std::min(p.M, p.N) >= kTile &&
         std::ranges::any_of(lines, [](int64_t n) { return n % kTogether != 0; });
}

}  // namespace

const MatmulStep& choose_matmul(std::string_view setting, const Product& p) {
  if (setting == "auto" && is_uneven(p) && hopper_supports(p)) setting = "hopper";
  if (setting == "cublas") {
    std::string reason = cublas_absence();
    if (reason.empty()) reason = cublas_refusal(p);
    check(reason.empty(), "{} is cublas, but {}", kVariable, reason);
  }
  return choose_step(kVariable, setting, matmul_steps(),
                     [&](const MatmulStep& step) { return step.supports(p); });
}

void prepare_matmul() {
  if (setting() == "auto" || setting() == "cublas") cublas_absence();  // opens it
}

Product product_of(Tensor& z, const Tensor& x, const Tensor& y, const Tensor& bias, bool add) {
  Product p{.dtype = x.dtype(),
            .out = z.dtype(),
            .M = x.size(-2),
            .N = y.size(-1),
            .K = x.size(-1),
            .lead = z.rank() - 2,
            .x = readable(operand(x, z), x.size(-2), x.size(-1)),
            .y = readable(operand(y, z), y.size(-2), y.size(-1)),
            .z = operand(z, z),
            .x_data = x.raw(),
            .y_data = y.raw(),
            .bias = bias.defined() ? bias.raw() : nullptr,
            .z_data = z.raw(),
            .add = add};
  for (int axis = 0; axis < p.lead; ++axis) p.sizes[axis] = z.shape()[axis];
  return p;
}

namespace {

/// x·weightᵀ + bias.
Product layer_product(Tensor& y, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const Tensor transposed =
      weight.alias({weight.size(1), weight.size(0)}, {weight.strides()[1], weight.strides()[0]});
  return product_of(y, x, transposed, bias, false);
}

}  // namespace

void matmul(Tensor& z, const Tensor& x, const Tensor& y, bool add) {
  if (z.numel() != 0) multiply(product_of(z, x, y, {}, add));
}

void linear(Tensor& y, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if (y.numel() == 0) return;
  multiply(layer_product(y, x, weight, bias));
}

void linear_gelu_tanh(Tensor& active, Tensor& y, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if (y.numel() == 0) return;
  // Before Hopper, cuBLASLt does not support GELU, or is slower with it than with a separate kernel
  // (measured by llm.c).
  if (!is_low_precision(y.dtype()) || compute_capability() < 90) {
    linear(y, x, weight, bias);
    return unary(active, y, Unary::gelu_tanh, 0, 0);
  }
  Product p = layer_product(y, x, weight, bias);
  p.active = active.raw();
  multiply(p);
}

}  // namespace vitrine::cuda
