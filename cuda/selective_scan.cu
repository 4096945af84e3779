// The selective scan, step by step, with the state in registers (cuda/scan_lines.h): a line is the
// state of one channel, and a block has kScanChannels channels of a row of the batch.
#include "core/creation.h"
#include "cuda/scan_lines.h"
#include "cuda/strided.h"
#include "ops/kernels.h"

namespace vitrine::cuda {
namespace {

/// Elements of a line that a thread holds, unless a line is too long for kMostLanes threads.
constexpr int kFew = 4, kMostLanes = 8;
constexpr int kMostThreadsOfScan = kScanChannels * kMostLanes;

template <class S>
struct Scan {
  using T = AccumulatorOf<S>;
  const S *u, *delta, *b, *c;
  const T *a, *skip;  ///< skip is null if there is none
  int64_t time, channels, states;
  int lanes;

  Scan(const Tensor& u, const Tensor& delta, const Tensor& a, const Tensor& b, const Tensor& c,
       const Tensor& skip, const ScanLanes& lanes)
      : u(u.data<S>()),
        delta(delta.data<S>()),
        b(b.data<S>()),
        c(c.data<S>()),
        a(a.data<T>()),
        skip(skip.defined() ? skip.data<T>() : nullptr),
        time(u.size(1)),
        channels(u.size(2)),
        states(a.size(1)),
        lanes(lanes.lanes) {}
};

/// The tiles of the operands: elements of the block's channels, and vectors with an element per
/// state.
template <class S>
struct Tiles {
  using T = AccumulatorOf<S>;
  ScanTile<T> u, delta, b, c;

  __device__ Tiles(T*& room, const Scan<S>& x, int positions)
      : u(room, positions, kScanChannels),
        delta(room, positions, kScanChannels),
        b(room, positions, x.states),
        c(room, positions, x.states) {}
  /// Copies S to T from rows of `width` elements, from element `first` of each.
  static __device__ void copy(const ScanTile<T>& tile, const S* from, int64_t row, int positions,
                              int64_t first, int64_t width) {
    from += row * width + first;
    tile.fill(positions, [&](int t, int64_t i) {
      return first + i < width ? static_cast<T>(from[t * width + i]) : T(0);
    });
  }
  __device__ void copy_from(const Scan<S>& x, const ScanPlace& at, int64_t begin, int positions) const {
    const int64_t row = at.matrix * x.time + begin;
    copy(u, x.u, row, positions, at.first_line(), x.channels);
    copy(delta, x.delta, row, positions, at.first_line(), x.channels);
    copy(b, x.b, row, positions, 0, x.states);
    copy(c, x.c, row, positions, 0, x.states);
  }
  static int64_t room(int64_t states, int positions) { return positions * 2 * (kScanChannels + states); }
};

/// Positions of a tile. In the backward, a thread holds the states of one tile in registers.
constexpr int kTile = 16, kShortTile = 8;

template <int kEach, class S, class T>
__global__ void __launch_bounds__(kMostThreadsOfScan)
    selective_kernel(S* y, T* state, T* boundaries, Scan<S> x, const T* first) {
  VITRINE_DYNAMIC_SHARED(T, shared);
  T* room = shared;
  const ScanPlace at(x.lanes, x.channels, x.states);
  const Tiles<S> tiles(room, x, kTile);
  const int64_t channel = at.line, own = (at.matrix * x.channels + channel) * x.states,
                chunks = (x.time + kScanChunk - 1) / kScanChunk;
  const auto for_each = [&](const auto& f) { at.for_each<kEach>(f); };
  T h[kEach] = {}, a[kEach] = {};
  for_each([&](int r, int s) { h[r] = first[own + s], a[r] = x.a[channel * x.states + s]; });
  for (int64_t begin = 0; begin < x.time; begin += kTile) {
    const int positions = positions_of(x.time - begin, kTile);
    if (boundaries != nullptr && begin % kScanChunk == 0) {
      const int64_t chunk = at.matrix * chunks + begin / kScanChunk;
      for_each([&](int r, int s) { boundaries[(chunk * x.channels + channel) * x.states + s] = h[r]; });
    }
    __syncthreads();  // now all threads have read the tile before
    tiles.copy_from(x, at, begin, positions);
    __syncthreads();
    for (int t = 0; t < positions; ++t) {
      const T delta = tiles.delta(t, at.in_block), u = tiles.u(t, at.in_block), in = delta * u;
      T sum = 0;
      for_each([&](int r, int s) {
        h[r] = math::exp(delta * a[r]) * h[r] + in * tiles.b(t, s);
        sum += tiles.c(t, s) * h[r];
      });
      sum = at.sum(sum);
      if (at.writes())
        y[(at.matrix * x.time + begin + t) * x.channels + channel] =
            S(x.skip ? sum + x.skip[channel] * u : sum);
    }
  }
  for_each([&](int r, int s) { state[own + s] = h[r]; });
}

template <class S>
struct Gradients {
  using T = AccumulatorOf<S>;
  S *du, *ddelta;
  T *da, *db, *dc, *dskip, *dfirst;
};

/// Sums over the channels of a block, of numbers with one element per position of a tile and state:
/// each warp keeps the sum over its channels in shared memory, until all of them are added.
template <class T>
struct ChannelSums {
  T* of_warps;
  int64_t states;

  static int64_t room(int64_t states, unsigned threads) { return kShortTile * (threads / kWarp) * states; }
  __device__ ChannelSums(T*& room, int64_t states) : of_warps(room), states(states) {
    room += kShortTile * (blockDim.x / kWarp) * states;
  }
  /// Adds `mine` over the channels of this warp. All its threads call this.
  __device__ void keep(const ScanPlace& at, int t, int64_t s, T mine) const {
    mine = at.sum_lines(mine);
    if (s < states && threadIdx.x % kWarp < static_cast<unsigned>(at.lanes))
      of_warps[(t * (blockDim.x / kWarp) + threadIdx.x / kWarp) * states + s] = mine;
  }
  /// Writes the sums of the first `positions` to `sums` [positions, states]. A barrier has come
  /// before.
  __device__ void write(T* sums, int positions) const {
    const auto warps = static_cast<int64_t>(blockDim.x / kWarp);
    for (int64_t i = threadIdx.x; i < positions * states; i += blockDim.x) {
      const T* const first = of_warps + (i / states * warps) * states + i % states;
      T sum = 0;
      for (int64_t warp = 0; warp < warps; ++warp) sum += first[warp * states];
      sums[i] = sum;
    }
  }
};

/// Chunk by chunk, from the last one. A first walk through a chunk keeps the state before each of
/// its tiles. Then, from the last tile, the states of the tile are computed again, and dh goes
/// through them.
template <int kEach, class S, class T>
__global__ void __launch_bounds__(kMostThreadsOfScan)
    selective_backward_kernel(Gradients<S> d, Scan<S> x, const S* dy, const T* dstate, const T* boundaries) {
  constexpr int kTiles = kScanChunk / kShortTile;
  VITRINE_DYNAMIC_SHARED(T, shared);
  T* room = shared;
  const ScanPlace at(x.lanes, x.channels, x.states);
  const Tiles<S> tiles(room, x, kShortTile);
  const ScanTile<T> dys(room, kShortTile, kScanChannels);
  const ChannelSums<T> dbs(room, x.states), dcs(room, x.states);
  const int64_t channel = at.line, own = (at.matrix * x.channels + channel) * x.states,
                chunks = (x.time + kScanChunk - 1) / kScanChunk;
  const auto for_each = [&](const auto& f) { at.for_each<kEach>(f); };
  T h[kEach] = {}, dh[kEach] = {}, a[kEach] = {}, da[kEach] = {}, before_tile[kTiles][kEach] = {}, dskip = 0;
  for_each([&](int r, int s) { dh[r] = dstate[own + s], a[r] = x.a[channel * x.states + s]; });
  const T skip = x.skip != nullptr && at.active ? x.skip[channel] : T(0);
  const auto stage = [&](int64_t begin, int positions) {
    __syncthreads();  // now all threads have read the tile before
    tiles.copy_from(x, at, begin, positions);
    Tiles<S>::copy(dys, dy, at.matrix * x.time + begin, positions, at.first_line(), x.channels);
    __syncthreads();
  };
  for (int64_t chunk = chunks - 1; chunk >= 0; --chunk) {
    const int64_t begin = chunk * kScanChunk;
    const int length = positions_of(x.time - begin, kScanChunk),
              count = (length + kShortTile - 1) / kShortTile;
    const T* const boundary = boundaries + ((at.matrix * chunks + chunk) * x.channels + channel) * x.states;
    for_each([&](int r, int s) { before_tile[0][r] = h[r] = boundary[s]; });
    for (int tile = 1; tile < count; ++tile) {
      stage(begin + (tile - 1) * kShortTile, kShortTile);
      for (int t = 0; t < kShortTile; ++t) {
        const T delta = tiles.delta(t, at.in_block), in = delta * tiles.u(t, at.in_block);
        for_each([&](int r, int s) { h[r] = math::exp(delta * a[r]) * h[r] + in * tiles.b(t, s); });
      }
      for_each([&](int r, int) { before_tile[tile][r] = h[r]; });
    }
    for (int tile = count - 1; tile >= 0; --tile) {
      const int positions = positions_of(length - tile * kShortTile, kShortTile);
      const int64_t first = begin + tile * kShortTile;
      stage(first, positions);
      T before[kShortTile][kEach], decay[kShortTile][kEach];
      for_each([&](int r, int) { h[r] = before_tile[tile][r]; });
      repeat<kShortTile, kEach == kFew>([&](int t) {
        if (t >= positions) return;
        const T delta = tiles.delta(t, at.in_block), in = delta * tiles.u(t, at.in_block);
        for_each([&](int r, int s) {
          before[t][r] = h[r], decay[t][r] = math::exp(delta * a[r]);
          h[r] = decay[t][r] * h[r] + in * tiles.b(t, s);
        });
      });
      repeat<kShortTile, kEach == kFew>([&](int from_end) {
        const int t = kShortTile - 1 - from_end;
        if (t >= positions) return;
        const T delta = tiles.delta(t, at.in_block), u = tiles.u(t, at.in_block), g = dys(t, at.in_block),
                in = delta * u;
        T din = 0, ddelta = 0;
#pragma unroll
        for (int r = 0; r < kEach; ++r) {
          if (r * at.lanes >= x.states) break;  // for all threads
          const int s = at.lane + r * at.lanes;
          T db = 0, dc = 0;
          if (r < at.count) {
            const T b = tiles.b(t, s), element = dh[r] + g * tiles.c(t, s), kept = decay[t][r] * before[t][r],
                    dexponent = element * kept;
            din += element * b, ddelta += dexponent * a[r], da[r] += dexponent * delta;
            db = element * in, dc = g * (kept + in * b);
            dh[r] = element * decay[t][r];
          }
          dbs.keep(at, t, s, db), dcs.keep(at, t, s, dc);
        }
        din = at.sum(din), ddelta = at.sum(ddelta);
        dskip += g * u;
        if (!at.writes()) return;
        const int64_t place = (at.matrix * x.time + first + t) * x.channels + channel;
        d.du[place] = S(din * delta + g * skip);
        d.ddelta[place] = S(ddelta + din * u);
      });
      __syncthreads();
      const int64_t place = (int64_t{blockIdx.x} * x.time + first) * x.states;
      dbs.write(d.db + place, positions), dcs.write(d.dc + place, positions);
    }
  }
  for_each([&](int r, int s) { d.da[own + s] = da[r], d.dfirst[own + s] = dh[r]; });
  if (x.skip != nullptr && at.writes()) d.dskip[at.matrix * x.channels + channel] = dskip;
}

template <class T>
T* data_or_null(const Tensor& x) {
  return x.defined() ? x.data<T>() : nullptr;
}

ScanLanes lanes_for(int64_t states, const char* op) {
  return ScanLanes::of(states, kFew, kMostLanes, kScanChannels, op, "a line of a");
}

}  // namespace

void selective_scan(Tensor& y, Tensor& state, Tensor& boundaries, const Tensor& u, const Tensor& delta,
                    const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& skip,
                    const Tensor& first) {
  const ScanLanes lanes = lanes_for(a.size(1), "selective_scan");
  visit_device_floating(u.dtype(), "selective_scan", [&](auto type) {
    using S = typename decltype(type)::type;
    using T = AccumulatorOf<S>;
    const Scan<S> x(u, delta, a, b, c, skip, lanes);
    const unsigned blocks = scan_blocks(u.size(0), x.channels, lanes, "selective_scan");
    if (blocks == 0) return;
    visit_each<kFew>(lanes, [&](auto each) {
      const unsigned bytes = scan_shared<selective_kernel<each, S, T>, T>(Tiles<S>::room(x.states, kTile),
                                                                          "selective_scan", "a");
      VITRINE_LAUNCH((selective_kernel<each, S, T>), blocks, lanes.threads, bytes, y.data<S>(),
                     state.data<T>(), data_or_null<T>(boundaries), x, first.data<T>());
    });
  });
}

void selective_scan_backward(Tensor& du, Tensor& ddelta, Tensor& da, Tensor& db, Tensor& dc, Tensor& dskip,
                             Tensor& dfirst, const Tensor& dy, const Tensor& dstate, const Tensor& u,
                             const Tensor& delta, const Tensor& a, const Tensor& b, const Tensor& c,
                             const Tensor& skip, const Tensor& boundaries) {
  const ScanLanes lanes = lanes_for(a.size(1), "selective_scan_backward");
  visit_device_floating(u.dtype(), "selective_scan_backward", [&](auto type) {
    using S = typename decltype(type)::type;
    using T = AccumulatorOf<S>;
    const Scan<S> x(u, delta, a, b, c, skip, lanes);
    const unsigned blocks = scan_blocks(u.size(0), x.channels, lanes, "selective_scan_backward");
    if (blocks == 0) return;
    const int64_t room = Tiles<S>::room(x.states, kShortTile) + kShortTile * kScanChannels +
                         2 * ChannelSums<T>::room(x.states, lanes.threads);
    visit_each<kFew>(lanes, [&](auto each) {
      const unsigned bytes =
          scan_shared<selective_backward_kernel<each, S, T>, T>(room, "selective_scan_backward", "a");
      VITRINE_LAUNCH((selective_backward_kernel<each, S, T>), blocks, lanes.threads, bytes,
                     Gradients<S>{du.data<S>(), ddelta.data<S>(), da.data<T>(), db.data<T>(), dc.data<T>(),
                                  data_or_null<T>(dskip), dfirst.data<T>()},
                     x, dy.data<S>(), dstate.data<T>(), boundaries.data<T>());
    });
  });
}

}  // namespace vitrine::cuda
