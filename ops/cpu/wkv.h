// A chunk of positions of wkv, for one group of kScanChannels channels.
#pragma once

#include <cstddef>

namespace vitrine::cpu {

/// n positions of one group of channels; each position and each vector has kScanChannels elements.
/// The state is that before the chunk on entry and after it on return; its gradient the reverse.
template <class T>
struct WkvChunk {
  size_t n;
  const T *k, *v, *decay, *bonus;
  T *mean, *log_weight, *y;                    ///< y, of the backward dy
  T *means = nullptr, *log_weights = nullptr;  ///< the states before each position
  T *dk = nullptr, *dv = nullptr, *ddecay = nullptr, *dbonus = nullptr, *dmean = nullptr,
    *dlog_weight = nullptr;
};

}  // namespace vitrine::cpu
