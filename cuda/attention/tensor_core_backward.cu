// The backward of step 3: the same as in step 2 (cuda/attention/tiled_backward.cu), with its five
// kinds of products on tensor cores.
#include "cuda/attention/launch.h"
#include "cuda/attention/tensor_core.h"

namespace vitrine::cuda {

bool tensor_core_attention_backward_supports(const AttentionBackward& p) {
  return visit_16_bits(p, [&]<class S>(Type<S>, auto height) { return fits_backward<S, height>(p); });
}

void tensor_core_attention_backward(const AttentionBackward& p, const Tensor& near, const Tensor& h) {
  visit_16_bits(p,
                [&]<class S>(Type<S>, auto height) { return launch_backward<S, height>(p, near, h), true; });
}

void tensor_core_attention_backward(const AttentionBackward& p) { tensor_core_attention_backward(p, {}, {}); }

}  // namespace vitrine::cuda
