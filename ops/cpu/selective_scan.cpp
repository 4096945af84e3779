// The selective scan: neighbouring channels are vectorized, groups of channels of each row of the
// batch run in parallel. The backward starts each chunk from a state that the forward has kept,
// and keeps the states and decays within one chunk.
#include <algorithm>

#include "core/memory/thread_buffer.h"
#include "ops/cpu/channel_group.h"
#include "ops/cpu/selective_scan.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/selective_scan.cpp"
#include "core/simd/dispatch.h"
#include "core/simd/vector_functions-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vitrine {
namespace HWY_NAMESPACE {
namespace selective {
using cpu::SelectiveChunk;

inline constexpr size_t kGroup = kScanChannels;

/// y = Σ c·h, and the state after the chunk.
template <class T>
void forward(const SelectiveChunk<T>& x) {
  using V = Vec<T>;
  for (size_t lane = 0; lane < x.channels; lane += kLanes<T>)
    for (size_t p = 0; p < x.n; ++p) {
      const V delta = load(x.delta + p * kGroup + lane), in = delta * load(x.u + p * kGroup + lane);
      V y(T(0));
      for (size_t s = 0; s < x.states; ++s) {
        T* const at = x.h + s * kGroup + lane;
        const V h =
            mul_add(in, V(x.b[p * x.states + s]), exp(delta * load(x.a + s * kGroup + lane)) * load(at));
        store(at, h);
        y = mul_add(V(x.c[p * x.states + s]), h, y);
      }
      store(x.y + p * kGroup + lane, y);
    }
}

/// The states before each position of the chunk, and the decays, of one vector of channels.
template <class T>
HWY_INLINE void remember(const SelectiveChunk<T>& x, T* before, T* decays, size_t lane) {
  using V = Vec<T>;
  for (size_t p = 0; p < x.n; ++p) {
    const V delta = load(x.delta + p * kGroup + lane), in = delta * load(x.u + p * kGroup + lane);
    for (size_t s = 0; s < x.states; ++s) {
      T* const at = x.h + s * kGroup + lane;
      const size_t kept = (p * x.states + s) * kLanes<T>;
      const V h = load(at), decay = exp(delta * load(x.a + s * kGroup + lane));
      store(before + kept, h), store(decays + kept, decay);
      store(at, mul_add(in, V(x.b[p * x.states + s]), decay * h));
    }
  }
}

/// From the last position to the first. Adds to da, db and dc; du lacks the part through skip.
template <class T>
void backward(const SelectiveChunk<T>& x, T* kept) {
  using V = Vec<T>;
  T *const before = kept, *const decays = kept + x.n * x.states * kLanes<T>;
  for (size_t lane = 0; lane < x.channels; lane += kLanes<T>) {
    remember(x, before, decays, lane);
    const Mask<T> active = {hn::FirstN(Tag<T>(), std::min(kLanes<T>, x.channels - lane))};
    for (size_t p = x.n; p-- > 0;) {
      const V delta = load(x.delta + p * kGroup + lane), u = load(x.u + p * kGroup + lane),
              dy = load(x.y + p * kGroup + lane), in = delta * u;
      V din(T(0)), ddelta(T(0));
      for (size_t s = 0; s < x.states; ++s) {
        const size_t at = p * x.states + s, of = s * kGroup + lane;
        const V h = load(before + at * kLanes<T>), decay = load(decays + at * kLanes<T>), b(x.b[at]);
        const V dh = mul_add(dy, V(x.c[at]), load(x.dh + of)), dexponent = dh * h * decay;
        const V after = mul_add(in, b, decay * h);
        din = mul_add(dh, b, din), ddelta = mul_add(dexponent, load(x.a + of), ddelta);
        store(x.da + of, mul_add(dexponent, delta, load(x.da + of)));
        x.db[at] += reduce_sum(select(active, dh * in, V(T(0))));
        x.dc[at] += reduce_sum(select(active, dy * after, V(T(0))));
        store(x.dh + of, dh * decay);
      }
      store(x.ddelta + p * kGroup + lane, mul_add(din, u, ddelta));
      store(x.du + p * kGroup + lane, din * delta);
    }
  }
}

/// Elements of `kept` for the backward.
template <class T>
size_t room(size_t states) {
  return 2 * static_cast<size_t>(kScanChunk) * states * kLanes<T>;
}

}  // namespace selective
}  // namespace HWY_NAMESPACE
}  // namespace vitrine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vitrine::cpu {
namespace {

enum class Use { group, kept };
inline constexpr size_t kGroup = kScanChannels, kLength = kScanChunk;

/// A group of channels with N = `states` numbers each.
template <class S>
struct Group : ChannelGroup<S> {
  using T = AccumulatorOf<S>;
  using ChannelGroup<S>::row, ChannelGroup<S>::first, ChannelGroup<S>::time, ChannelGroup<S>::all_channels,
      ChannelGroup<S>::channels;
  size_t states;

  Group(const Tensor& u, const Tensor& a, int64_t task)
      : ChannelGroup<S>(u, task), states(static_cast<size_t>(a.size(1))) {}

  /// A matrix [channels, states] of this group, as [states, kGroup].
  void transpose(T* to, const T* matrix) const {
    std::fill_n(to, states * kGroup, T(0));
    for (size_t c = 0; c < channels; ++c)
      for (size_t s = 0; s < states; ++s) to[s * kGroup + c] = matrix[c * states + s];
  }
  void transpose_back(T* matrix, const T* from) const {
    for (size_t c = 0; c < channels; ++c)
      for (size_t s = 0; s < states; ++s) matrix[c * states + s] = from[s * kGroup + c];
  }
  /// The channels of this group in x [.., D, N], of which this is row i.
  T* matrix(const Tensor& x, int64_t i) const {
    return x.data<T>() + (i * all_channels + first) * static_cast<int64_t>(states);
  }
  /// Positions from `begin` on of b or c.
  void pack_states(T* to, const Tensor& x, int64_t begin, size_t n) const {
    vecmath::convert(to, x.data<S>() + (row * time + begin) * static_cast<int64_t>(states), n * states);
  }
};

template <class F>
void for_each_group(const char* kernel, const Tensor& u, const Tensor& a, F&& f) {
  for_each_channel_group(kernel, u, a.size(1) * 8, [&](auto type, int64_t task) {
    f(type, Group<typename decltype(type)::type>(u, a, task));
  });
}

}  // namespace

void selective_scan(Tensor& y, Tensor& state, Tensor& boundaries, const Tensor& u, const Tensor& delta,
                    const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& skip,
                    const Tensor& first) {
  for_each_group("selective_scan", u, a, [&](auto type, const auto& group) {
    using S = typename decltype(type)::type;
    using T = AccumulatorOf<S>;
    const size_t matrix = group.states * kGroup, wide = kLength * kGroup, narrow = kLength * group.states;
    T* const buffer = detail::thread_buffer<T, Use::group>(2 * matrix + 3 * wide + 2 * narrow);
    T *const as = buffer, *const h = as + matrix, *const us = h + matrix, *const deltas = us + wide,
             *const ys = deltas + wide, *const bs = ys + wide, *const cs = bs + narrow;
    group.transpose(as, group.matrix(a, 0)), group.transpose(h, group.matrix(first, group.row));
    for (int64_t begin = 0; begin < group.time; begin += kScanChunk) {
      const size_t n = static_cast<size_t>(std::min(kScanChunk, group.time - begin));
      if (boundaries.defined())
        group.transpose_back(group.matrix(boundaries, group.row * boundaries.size(1) + begin / kScanChunk),
                             h);
      group.pack(us, u, begin, n), group.pack(deltas, delta, begin, n);
      group.pack_states(bs, b, begin, n), group.pack_states(cs, c, begin, n);
      SelectiveChunk<T> chunk{n, group.channels, group.states, us, deltas, as, bs, cs, h, ys};
      VITRINE_DISPATCH(selective::forward<T>)(chunk);
      for (size_t p = 0; skip.defined() && p < n; ++p)
        for (size_t i = 0; i < group.channels; ++i)
          ys[p * kGroup + i] += skip.data<T>()[group.first + static_cast<int64_t>(i)] * us[p * kGroup + i];
      group.unpack(y, ys, begin, n);
    }
    group.transpose_back(group.matrix(state, group.row), h);
  });
}

void selective_scan_backward(Tensor& du, Tensor& ddelta, Tensor& da, Tensor& db, Tensor& dc, Tensor& dskip,
                             Tensor& dfirst, const Tensor& dy, const Tensor& dstate, const Tensor& u,
                             const Tensor& delta, const Tensor& a, const Tensor& b, const Tensor& c,
                             const Tensor& skip, const Tensor& boundaries) {
  for_each_group("selective_scan_backward", u, a, [&](auto type, const auto& group) {
    using S = typename decltype(type)::type;
    using T = AccumulatorOf<S>;
    const size_t matrix = group.states * kGroup, wide = kLength * kGroup, narrow = kLength * group.states;
    T* const buffer = detail::thread_buffer<T, Use::group>(4 * matrix + 5 * wide + 4 * narrow + 2 * kGroup);
    T *const as = buffer, *const h = as + matrix, *const dh = h + matrix, *const das = dh + matrix,
             *const us = das + matrix, *const deltas = us + wide, *const dys = deltas + wide,
             *const dus = dys + wide, *const ddeltas = dus + wide, *const bs = ddeltas + wide,
             *const cs = bs + narrow, *const dbs = cs + narrow, *const dcs = dbs + narrow,
             *const skips = dcs + narrow, *const dskips = skips + kGroup;
    T* const kept = detail::thread_buffer<T, Use::kept>(VITRINE_DISPATCH(selective::room<T>)(group.states));
    group.transpose(as, group.matrix(a, 0)), group.transpose(dh, group.matrix(dstate, group.row));
    std::fill_n(das, matrix, T(0)), std::fill_n(skips, 2 * kGroup, T(0));
    if (skip.defined()) std::copy_n(skip.data<T>() + group.first, group.channels, skips);
    for (int64_t chunk = boundaries.size(1) - 1; chunk >= 0; --chunk) {
      const int64_t begin = chunk * kScanChunk;
      const size_t n = static_cast<size_t>(std::min(kScanChunk, group.time - begin));
      group.transpose(h, group.matrix(boundaries, group.row * boundaries.size(1) + chunk));
      group.pack(us, u, begin, n), group.pack(deltas, delta, begin, n), group.pack(dys, dy, begin, n);
      group.pack_states(bs, b, begin, n), group.pack_states(cs, c, begin, n);
      std::fill_n(dbs, 2 * narrow, T(0));  // and dcs
      SelectiveChunk<T> x{n,   group.channels, group.states, us,  deltas, as, bs, cs, h, dys, dh,
                          dus, ddeltas,        das,          dbs, dcs};
      VITRINE_DISPATCH(selective::backward<T>)(x, kept);
      if (skip.defined())
        for (size_t p = 0; p < n; ++p)
          for (size_t i = 0; i < group.channels; ++i) {
            dus[p * kGroup + i] += dys[p * kGroup + i] * skips[i];
            dskips[i] += dys[p * kGroup + i] * us[p * kGroup + i];
          }
      group.unpack(du, dus, begin, n), group.unpack(ddelta, ddeltas, begin, n);
      const int64_t at =
          ((group.row * db.size(1) + group.first / kScanChannels) * group.time + begin) * a.size(1);
      std::copy_n(dbs, n * group.states, db.data<T>() + at);
      std::copy_n(dcs, n * group.states, dc.data<T>() + at);
    }
    group.transpose_back(group.matrix(da, group.row), das);
    group.transpose_back(group.matrix(dfirst, group.row), dh);
    if (skip.defined())
      std::copy_n(dskips, group.channels, dskip.data<T>() + group.row * group.all_channels + group.first);
  });
}

}  // namespace vitrine::cpu
#endif
