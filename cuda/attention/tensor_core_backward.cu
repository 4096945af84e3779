// The backward of step 3: that of step 2 (cuda/attention/tiled_backward.cu), whose five kinds of
// products are those of tensor cores.
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
