// The ladder of matrix products: the same function five times, each step with one idea more than
// the one before, and cuBLASLt to measure them against. VITRINE_CUDA_MATMUL chooses one
// (docs/cuda.md).
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cuda/matmul/product.h"

namespace vitrine::cuda {

struct MatmulStep {
  std::string_view name;
  /// Whether it can do this product, on the current device.
  bool (*supports)(const Product& p);
  void (*run)(const Product& p);
};

/// Ours, from the simplest, which supports every product, to the fastest; cuBLASLt is the last.
std::span<const MatmulStep> matmul_steps();

/// The step that multiplies p under VITRINE_CUDA_MATMUL=setting: the one of that name, or where it
/// does not support p the next one below that does. "auto" begins at the top. An error lists the
/// names when `setting` is none, and says why when cuBLASLt is asked for by name and is not
/// installed or refuses p; under "auto" the next step multiplies then.
const MatmulStep& choose_matmul(std::string_view setting, const Product& p);
/// Makes what products on the current device need of it, before a graph is captured in which one
/// may be the first.
void prepare_matmul();

/// The product for z = x·y + bias or z += x·y (ops/kernels.h); `bias` may be undefined.
Product product_of(Tensor& z, const Tensor& x, const Tensor& y, const Tensor& bias, bool add);

// One file a step, in the order of the ladder.
bool naive_supports(const Product& p);
void naive_matmul(const Product& p);
bool tiled_supports(const Product& p);
void tiled_matmul(const Product& p);
bool blocked_supports(const Product& p);
void blocked_matmul(const Product& p);
bool tensor_core_supports(const Product& p);
void tensor_core_matmul(const Product& p);
bool hopper_supports(const Product& p);
void hopper_matmul(const Product& p);
bool cublas_supports(const Product& p);
void cublas_matmul(const Product& p);
/// Why cuBLASLt cannot be used on the current device, or "".
std::string cublas_absence();
/// Its version, and the file from which it was opened, or why it cannot be opened. That needs no
/// GPU.
std::string cublas_origin();
/// What it said of p other than that it has no kernel for it, or "".
std::string cublas_refusal(const Product& p);

}  // namespace vitrine::cuda
