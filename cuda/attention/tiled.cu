// Step 2, for float32 and float64: tiles in shared memory, and a softmax that never sees its whole
// row.
//
// What it buys: a block of threads keeps a tile of queries and meets keys and values 32 at a time,
// so that each of these is loaded once for all queries of the tile. The weights are never in
// memory: with the largest score so far, sums are scaled where a larger one comes
// (cuda/attention/forward_tile.h). Memory grows with the length of a sequence, no longer with its
// square.
#include "cuda/attention/launch.h"

namespace vitrine::cuda {

bool tiled_attention_supports(const AttentionForward& p) {
  return visit_wide(p, [&]<class S>(Type<S>) { return fits_forward<S, 1>(p); });
}

void tiled_attention(const AttentionForward& p) {
  visit_wide(p, [&]<class S>(Type<S>) { return launch_forward<S, 1>(p), true; });
}

}  // namespace vitrine::cuda
