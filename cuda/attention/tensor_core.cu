// Step 3, for bfloat16 and float16: the same tiles, multiplied by tensor cores.
//
// The gain: one instruction of a warp computes 2048 products, and numbers stay 16 bits wide up to
// the product. The result of q·kᵀ has the layout of a left operand, so weights go into the product
// with v without leaving their registers (cuda/attention/products.h). Two blocks of keys are in
// shared memory: the next block is loaded while the present block is multiplied.
#include "cuda/attention/tensor_core.h"

#include "cuda/attention/launch.h"

namespace vitrine::cuda {

bool tensor_core_attention_supports(const AttentionForward& p) {
  return visit_16_bits(p, [&]<class S>(Type<S>, auto height) { return fits_forward<S, height>(p); });
}

void tensor_core_attention(const AttentionForward& p, const Tensor& near) {
  visit_16_bits(p, [&]<class S>(Type<S>, auto height) { return launch_forward<S, height>(p, near), true; });
}

void tensor_core_attention(const AttentionForward& p) { tensor_core_attention(p, {}); }

}  // namespace vitrine::cuda
