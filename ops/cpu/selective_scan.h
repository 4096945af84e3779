// A chunk of positions of a selective scan, for one group of kScanChannels channels.
#pragma once

#include <cstddef>

namespace vitrine::cpu {

/// n positions, `channels` channels in use, N = `states` numbers each. u, delta, y (of the
/// backward: dy), du and ddelta are [n, kScanChannels], a, h, dh and da [N, kScanChannels], b, c,
/// db and dc [n, N]. h is the state before the chunk on entry and after it on return, dh the
/// gradient of the state after the chunk on entry and before it on return.
template <class T>
struct SelectiveChunk {
  size_t n, channels, states;
  const T *u, *delta, *a, *b, *c;
  T *h, *y;
  T *dh = nullptr, *du = nullptr, *ddelta = nullptr, *da = nullptr, *db = nullptr, *dc = nullptr;
};

}  // namespace vitrine::cpu
