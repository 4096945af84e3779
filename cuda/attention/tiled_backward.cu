// The backward of step 2. With P = e^(s − lse), computed again, and dP = dy·vᵀ:
//   ds = P∘(dP − D), D_i = Σ dy·y;   dq = scale·ds·k;   dk = scale·dsᵀ·q;   dv = Pᵀ·dy.
// LASER is the same with F in place of v and H = dy/(δ + Σ P·F) in place of dy; dv = e^(v −
// c)∘(Pᵀ·H). Elements that the forward computed exactly have H = 0, and their terms are added one
// by one: b = P·e^(v − o), dv += dy·b, ds += dy·b.
//
// There are two kernels, so that no sum has two writers: in the first a block owns queries, in the
// second keys. The first writes D and LASER's anchors for the second. This takes two products more
// than the textbook's five, and gives the same bits in every run.
#include "cuda/attention/launch.h"

namespace vitrine::cuda {

bool tiled_attention_backward_supports(const AttentionBackward& p) {
  return visit_wide(p, [&]<class S>(Type<S>) { return fits_backward<S, 1>(p); });
}

void tiled_attention_backward(const AttentionBackward& p) {
  visit_wide(p, [&]<class S>(Type<S>) { return launch_backward<S, 1>(p), true; });
}

}  // namespace vitrine::cuda
