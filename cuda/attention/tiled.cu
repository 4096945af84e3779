// Step 2, for float32 and float64: tiles in shared memory, and an online softmax, which never needs
// a whole row.
//
// The gain: a block of threads keeps a tile of queries and processes 32 keys and values at a time,
// so each key and value is loaded once for all queries of the tile. The weights are never in
// memory: the sums are relative to the largest score so far, and are scaled when a larger score
// comes (cuda/attention/forward_tile.h). Memory grows with the length of a sequence, no longer with
// its square.
#include "cuda/attention/launch.h"

namespace vitrine::cuda {

bool tiled_attention_supports(const AttentionForward& p) {
  return visit_wide(p, [&]<class S>(Type<S>) { return fits_forward<S, 1>(p); });
}

void tiled_attention(const AttentionForward& p) {
  visit_wide(p, [&]<class S>(Type<S>) { return launch_forward<S, 1>(p), true; });
}

}  // namespace vitrine::cuda
