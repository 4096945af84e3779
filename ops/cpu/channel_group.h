// A group of neighbouring channels of one row of a batch, for scans over positions: the channels of
// a group are vectorized, and groups run in parallel.
#pragma once

#include <algorithm>

#include "core/parallel.h"
#include "ops/cpu/rows.h"
#include "ops/kernels.h"

namespace vitrine::cpu {

/// Channels `first` to `first` + `channels` of row `row` of x [B, T, all_channels]. Packed buffers
/// have kScanChannels columns; those of channels that do not exist are 0.
template <class S>
struct ChannelGroup {
  using T = AccumulatorOf<S>;
  int64_t row, first, time, all_channels;
  size_t channels;

  ChannelGroup(const Tensor& x, int64_t task)
      : row(task / groups(x)),
        first(task % groups(x) * kScanChannels),
        time(x.size(1)),
        all_channels(x.size(2)),
        channels(static_cast<size_t>(std::min(kScanChannels, all_channels - first))) {}

  static int64_t groups(const Tensor& x) { return (x.size(2) + kScanChannels - 1) / kScanChannels; }

  /// n positions of x from `begin` on, as [n, kScanChannels].
  void pack(T* to, const Tensor& x, int64_t begin, size_t n) const {
    const S* from = x.data<S>() + (row * time + begin) * all_channels + first;
    for (size_t p = 0; p < n; ++p, to += kScanChannels, from += all_channels) {
      vecmath::convert(to, from, channels);
      std::fill_n(to + channels, static_cast<size_t>(kScanChannels) - channels, T(0));
    }
  }
  void unpack(Tensor& x, const T* from, int64_t begin, size_t n) const {
    S* to = x.data<S>() + (row * time + begin) * all_channels + first;
    for (size_t p = 0; p < n; ++p, from += kScanChannels, to += all_channels)
      vecmath::convert(to, from, channels);
  }
};

/// Calls f(type, task) for every group of x [B, T, C]. `cost` is that of one element.
template <class F>
void for_each_channel_group(const char* kernel, const Tensor& x, int64_t cost, F&& f) {
  visit_row_type(x.dtype(), kernel, [&](auto type) {
    using S = typename decltype(type)::type;
    const int64_t tasks = x.size(0) * ChannelGroup<S>::groups(x);
    parallel_for(0, tasks, grain_for(x.size(1) * kScanChannels * cost), [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) f(type, task);
    });
  });
}

}  // namespace vitrine::cpu
