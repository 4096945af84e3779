// The weighted average of RWKV-4: neighbouring channels are vectorized, and groups of channels of
// each row of the batch run in parallel. The backward starts each chunk from a state that the
// forward has kept, and computes the states within the chunk again.
#include <algorithm>

#include "core/memory/thread_buffer.h"
#include "ops/cpu/channel_group.h"
#include "ops/cpu/wkv.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/wkv.cpp"
#include "core/simd/dispatch.h"
#include "core/simd/vector_functions-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vitrine {
namespace HWY_NAMESPACE {
namespace weighted {
#include "ops/formulas-inl.h"
#include "ops/formulas_wkv-inl.h"
using cpu::WkvChunk;

/// Writes y if there is one, and the states before each position if they are kept.
template <class T>
void forward(const WkvChunk<T>& x) {
  using V = Vec<T>;
  for (size_t lane = 0; lane < kScanChannels; lane += kLanes<T>) {
    const V decay = load(x.decay + lane), bonus = load(x.bonus + lane);
    V mean = load(x.mean + lane), log_weight = load(x.log_weight + lane);
    for (size_t at = lane; at < x.n * kScanChannels; at += kScanChannels) {
      if (x.means != nullptr) store(x.means + at, mean), store(x.log_weights + at, log_weight);
      const auto s = WkvStep<V>::of(load(x.k + at), load(x.v + at), decay, bonus, mean, log_weight);
      if (x.means == nullptr) store(x.y + at, s.y);
      mean = s.mean, log_weight = s.log_weight;
    }
    store(x.mean + lane, mean), store(x.log_weight + lane, log_weight);
  }
}

/// From the last position to the first, after forward has kept the states.
template <class T>
void backward(const WkvChunk<T>& x) {
  using V = Vec<T>;
  for (size_t lane = 0; lane < kScanChannels; lane += kLanes<T>) {
    const V decay = load(x.decay + lane), bonus = load(x.bonus + lane);
    V dmean = load(x.dmean + lane), dlog_weight = load(x.dlog_weight + lane), ddecay = load(x.ddecay + lane),
      dbonus = load(x.dbonus + lane);
    for (size_t p = x.n; p-- > 0;) {
      const size_t at = p * kScanChannels + lane;
      const V v = load(x.v + at), mean = load(x.means + at);
      const auto s = WkvStep<V>::of(load(x.k + at), v, decay, bonus, mean, load(x.log_weights + at));
      const auto d = WkvStepGradient<V>::of(s, v, mean, load(x.y + at), dmean, dlog_weight);
      store(x.dk + at, d.k), store(x.dv + at, d.v);
      ddecay = ddecay + d.decay, dbonus = dbonus + d.bonus;
      dmean = d.mean, dlog_weight = d.log_weight;
    }
    store(x.dmean + lane, dmean), store(x.dlog_weight + lane, dlog_weight);
    store(x.ddecay + lane, ddecay), store(x.dbonus + lane, dbonus);
  }
}

}  // namespace weighted
}  // namespace HWY_NAMESPACE
}  // namespace vitrine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vitrine::cpu {
namespace {

enum class Use { buffers };
inline constexpr size_t kVector = kScanChannels, kChunk = kScanChunk * kScanChannels;

/// The numbers of the group in a vector of all channels, and back.
template <class S, class T>
void read(T* to, const T* vector, const ChannelGroup<S>& group) {
  std::copy_n(vector + group.first, group.channels, to);
  std::fill_n(to + group.channels, kVector - group.channels, T(0));
}
template <class S, class T>
void write(T* vector, const T* from, const ChannelGroup<S>& group) {
  std::copy_n(from, group.channels, vector + group.first);
}

/// The vector of row `row` of x [.., C].
template <class T>
T* row_of(const Tensor& x, int64_t row) {
  return x.data<T>() + row * x.size(-1);
}
/// The boundary `chunk` of a row: that of the mean (part 0) or of the log weight (part 1).
template <class T>
T* boundary(const Tensor& boundaries, int64_t part, int64_t row, int64_t chunk) {
  return row_of<T>(boundaries, (part * boundaries.size(1) + row) * boundaries.size(2) + chunk);
}

}  // namespace

void wkv(Tensor& y, Tensor& mean, Tensor& log_weight, Tensor& boundaries, const Tensor& k, const Tensor& v,
         const Tensor& decay, const Tensor& bonus, const Tensor& first_mean, const Tensor& first_log_weight) {
  for_each_channel_group("wkv", k, 32, [&](auto type, int64_t task) {
    using S = typename decltype(type)::type;
    using T = AccumulatorOf<S>;
    const ChannelGroup<S> group(k, task);
    T* const buffer = detail::thread_buffer<T, Use::buffers>(4 * kVector + 3 * kChunk);
    T *const decays = buffer, *const bonuses = decays + kVector, *const m = bonuses + kVector,
             *const w = m + kVector, *const ks = w + kVector, *const vs = ks + kChunk,
             *const ys = vs + kChunk;
    read(decays, decay.data<T>(), group), read(bonuses, bonus.data<T>(), group);
    read(m, row_of<T>(first_mean, group.row), group), read(w, row_of<T>(first_log_weight, group.row), group);
    for (int64_t begin = 0; begin < group.time; begin += kScanChunk) {
      const size_t n = static_cast<size_t>(std::min(kScanChunk, group.time - begin));
      if (boundaries.defined()) {
        write(boundary<T>(boundaries, 0, group.row, begin / kScanChunk), m, group);
        write(boundary<T>(boundaries, 1, group.row, begin / kScanChunk), w, group);
      }
      group.pack(ks, k, begin, n), group.pack(vs, v, begin, n);
      VITRINE_DISPATCH(weighted::forward<T>)(WkvChunk<T>{n, ks, vs, decays, bonuses, m, w, ys});
      group.unpack(y, ys, begin, n);
    }
    write(row_of<T>(mean, group.row), m, group), write(row_of<T>(log_weight, group.row), w, group);
  });
}

void wkv_backward(Tensor& dk, Tensor& dv, Tensor& ddecay, Tensor& dbonus, Tensor& dmean, Tensor& dlog_weight,
                  const Tensor& dy, const Tensor& dmean_after, const Tensor& dlog_weight_after,
                  const Tensor& k, const Tensor& v, const Tensor& decay, const Tensor& bonus,
                  const Tensor& boundaries) {
  for_each_channel_group("wkv_backward", k, 64, [&](auto type, int64_t task) {
    using S = typename decltype(type)::type;
    using T = AccumulatorOf<S>;
    const ChannelGroup<S> group(k, task);
    T* const buffer = detail::thread_buffer<T, Use::buffers>(8 * kVector + 7 * kChunk);
    T *const decays = buffer, *const bonuses = decays + kVector, *const m = bonuses + kVector,
             *const w = m + kVector, *const dm = w + kVector, *const dw = dm + kVector,
             *const dd = dw + kVector, *const db = dd + kVector, *const ks = db + kVector,
             *const vs = ks + kChunk, *const dys = vs + kChunk, *const ms = dys + kChunk,
             *const ws = ms + kChunk, *const dks = ws + kChunk, *const dvs = dks + kChunk;
    read(decays, decay.data<T>(), group), read(bonuses, bonus.data<T>(), group);
    read(dm, row_of<T>(dmean_after, group.row), group),
        read(dw, row_of<T>(dlog_weight_after, group.row), group);
    std::fill_n(dd, 2 * kVector, T(0));  // and db
    for (int64_t chunk = boundaries.size(2) - 1; chunk >= 0; --chunk) {
      const int64_t begin = chunk * kScanChunk;
      const size_t n = static_cast<size_t>(std::min(kScanChunk, group.time - begin));
      read(m, boundary<T>(boundaries, 0, group.row, chunk), group);
      read(w, boundary<T>(boundaries, 1, group.row, chunk), group);
      group.pack(ks, k, begin, n), group.pack(vs, v, begin, n), group.pack(dys, dy, begin, n);
      const WkvChunk<T> x{n, ks, vs, decays, bonuses, m, w, dys, ms, ws, dks, dvs, dd, db, dm, dw};
      VITRINE_DISPATCH(weighted::forward<T>)(x);
      VITRINE_DISPATCH(weighted::backward<T>)(x);
      group.unpack(dk, dks, begin, n), group.unpack(dv, dvs, begin, n);
    }
    write(row_of<T>(dmean, group.row), dm, group), write(row_of<T>(dlog_weight, group.row), dw, group);
    write(row_of<T>(ddecay, group.row), dd, group), write(row_of<T>(dbonus, group.row), db, group);
  });
}

}  // namespace vitrine::cpu
#endif
