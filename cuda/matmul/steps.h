// The ladder of matrix products: five implementations of one function. Each step adds one idea to
// the previous step. The sixth step is cuBLASLt, for comparison. VITRINE_CUDA_MATMUL chooses a step
// (docs/cuda.md).
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cuda/matmul/product.h"

namespace vitrine::cuda {

struct MatmulStep {
  std::string_view name;
  /// Whether the step supports this product on the current device.
  bool (*supports)(const Product& p);
  void (*run)(const Product& p);
};

/// Vitrine's steps, from the simplest, which supports every product, to the fastest. The last step
/// is cuBLASLt.
std::span<const MatmulStep> matmul_steps();

/// The step that computes p under VITRINE_CUDA_MATMUL=setting: the step of that name, or the next
/// lower step that supports p. "auto" begins at the top. If `setting` is not a name of a step, the
/// error lists the names. If `setting` names cuBLASLt, and cuBLASLt is not installed or refuses p,
/// the error gives the reason; under "auto" the next step computes p then.
const MatmulStep& choose_matmul(std::string_view setting, const Product& p);
/// Creates the resources that products on the current device need. Called before the capture of a
/// graph, whose first product could not create them.
void prepare_matmul();

/// The product for z = x·y + bias or z += x·y (ops/kernels.h); `bias` may be undefined.
Product product_of(Tensor& z, const Tensor& x, const Tensor& y, const Tensor& bias, bool add);

// One file per step, in the order of the ladder.
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
/// The version of cuBLASLt and the file that was loaded, or why it cannot be loaded. Needs no GPU.
std::string cublas_origin();
/// Why cuBLASLt refused p, or "". "" also if it has no kernel for p.
std::string cublas_refusal(const Product& p);

}  // namespace vitrine::cuda
