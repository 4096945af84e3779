// The selective scan, step by step, with the state in registers (cuda/scan_lines.h): a line is the
// state of one channel. A block of the backward has kScanChannels channels of a row of the batch,
// because it adds up gradients over them.
#include "core/math.h"
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
  int lanes, width, lines;  ///< as in ScanLanes

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
        lanes(lanes.lanes),
        width(lanes.width()),
        lines(lanes.lines_per_block()) {}
};

/// The tiles of the operands: elements of the block's channels, and vectors with an element per
/// state.
template <class S>
struct Tiles {
  using T = AccumulatorOf<S>;
  ScanTile<T> b, c, u, delta;

  __device__ Tiles(T*& room, const Scan<S>& x, int positions)
      : b(room, positions, x.width),
        c(room, positions, x.width),
        u(room, positions, x.lines),
        delta(room, positions, x.lines) {}
  static int64_t room(const Scan<S>& x, int positions) { return positions * 2 * (x.width + x.lines); }

  /// Copies `positions` of row `row` of the batch, from `begin` on.
  __device__ void copy_from(const Scan<S>& x, int64_t row, int64_t channel, int64_t begin,
                            int positions) const {
    const int64_t first = row * x.time + begin;
    u.copy(positions, x.u + first * x.channels, x.channels, channel, x.channels);
    delta.copy(positions, x.delta + first * x.channels, x.channels, channel, x.channels);
    b.copy(positions, x.b + first * x.states, x.states, 0, x.states);
    c.copy(positions, x.c + first * x.states, x.states, 0, x.states);
  }
};

template <int kEach, class S, class T>
__global__ void __launch_bounds__(kMostThreadsOfScan)
    selective_kernel(S* y, T* state, T* boundaries, Scan<S> x, const T* first) {
  constexpr int kTile = kScanTile<kEach, T>;
  VITRINE_DYNAMIC_SHARED(T, shared);
  T* room = shared;
  const ScanPlace<kEach> at(x.lanes, x.channels, x.states);
  const Tiles<S> tiles(room, x, kTile);
  const int64_t channel = at.line, own = (at.matrix * x.channels + channel) * x.states,
                chunks = (x.time + kScanChunk - 1) / kScanChunk;
  T h[kEach] = {}, a[kEach] = {};
  at.for_each([&](int r, int s) { h[r] = first[own + s], a[r] = x.a[channel * x.states + s]; });
  const T skip = x.skip != nullptr && at.active ? x.skip[channel] : T(0);
  for (int64_t begin = 0; begin < x.time; begin += kTile) {
    const int positions = positions_of(x.time - begin, kTile);
    if (boundaries != nullptr && begin % kScanChunk == 0) {
      const int64_t chunk = at.matrix * chunks + begin / kScanChunk;
      at.for_each([&](int r, int s) { boundaries[(chunk * x.channels + channel) * x.states + s] = h[r]; });
    }
    __syncthreads();  // now all threads have read the tile before
    tiles.copy_from(x, at.matrix, at.first_line(), begin, positions);
    __syncthreads();
    int64_t place = (at.matrix * x.time + begin) * x.channels + channel;
    for (int t = 0; t < positions; ++t, place += x.channels) {
      const T delta = tiles.delta(t, at.in_block), u = tiles.u(t, at.in_block), in = delta * u;
      const auto b = tiles.b.part(t, at);
#pragma unroll
      for (int r = 0; r < kEach; ++r) h[r] = std::fma(in, b[r], math::exp(delta * a[r]) * h[r]);
      const T sum = at.template dot<T>(tiles.c.part(t, at), h);
      if (at.writes()) y[place] = S(x.skip != nullptr ? sum + skip * u : sum);
    }
  }
  at.for_each([&](int r, int s) { state[own + s] = h[r]; });
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
  int width;

  __device__ ChannelSums(T*& room, int positions, int width) : of_warps(room), width(width) {
    room += positions * static_cast<int>(blockDim.x / kWarp) * width;
  }
  static int64_t room(const ScanLanes& lanes, int positions) {
    return positions * (lanes.threads / kWarp) * int64_t{lanes.width()};
  }
  /// Adds `mine`, for state s of this thread, over the channels of this warp. All its threads call
  /// this.
  template <int kEach>
  __device__ void keep(const ScanPlace<kEach>& at, int t, int s, T mine) const {
    mine = at.sum_lines(mine);
    if (threadIdx.x % kWarp < static_cast<unsigned>(at.lanes))
      of_warps[(t * static_cast<int>(blockDim.x / kWarp) + static_cast<int>(threadIdx.x / kWarp)) * width +
               s] = mine;
  }
  /// Writes the sums of the first `positions` to `sums` [positions, states]. A barrier has come
  /// before.
  __device__ void write(T* sums, int positions, int states) const {
    const int warps = static_cast<int>(blockDim.x / kWarp);
    for (int i = static_cast<int>(threadIdx.x); i < positions * states; i += static_cast<int>(blockDim.x)) {
      const T* const first = of_warps + i / states * warps * width + i % states;
      T sum = 0;
      for (int warp = 0; warp < warps; ++warp) sum += first[warp * width];
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
  constexpr int kShortTile = kShortScanTile<kEach>, kTiles = kScanChunk / kShortTile;
  VITRINE_DYNAMIC_SHARED(T, shared);
  T* room = shared;
  const ScanPlace<kEach> at(x.lanes, x.channels, x.states);
  const Tiles<S> tiles(room, x, kShortTile);
  const ChannelSums<T> dbs(room, kShortTile, x.width), dcs(room, kShortTile, x.width);
  const ScanTile<T> dys(room, kShortTile, x.lines);
  const int64_t channel = at.line, own = (at.matrix * x.channels + channel) * x.states,
                chunks = (x.time + kScanChunk - 1) / kScanChunk;
  T h[kEach] = {}, dh[kEach] = {}, a[kEach] = {}, da[kEach] = {}, before_tile[kTiles][kEach] = {}, dskip = 0;
  at.for_each([&](int r, int s) { dh[r] = dstate[own + s], a[r] = x.a[channel * x.states + s]; });
  const T skip = x.skip != nullptr && at.active ? x.skip[channel] : T(0);
  const auto stage = [&](int64_t begin, int positions) {
    __syncthreads();  // now all threads have read the tile before
    tiles.copy_from(x, at.matrix, at.first_line(), begin, positions);
    dys.copy(positions, dy + (at.matrix * x.time + begin) * x.channels, x.channels, at.first_line(),
             x.channels);
    __syncthreads();
  };
  for (int64_t chunk = chunks - 1; chunk >= 0; --chunk) {
    const int64_t begin = chunk * kScanChunk;
    const int length = positions_of(x.time - begin, kScanChunk),
              count = (length + kShortTile - 1) / kShortTile;
    const T* const boundary = boundaries + ((at.matrix * chunks + chunk) * x.channels + channel) * x.states;
    at.for_each([&](int r, int s) { before_tile[0][r] = h[r] = boundary[s]; });
    for (int tile = 1; tile < count; ++tile) {
      stage(begin + (tile - 1) * kShortTile, kShortTile);
      for (int t = 0; t < kShortTile; ++t) {
        const T delta = tiles.delta(t, at.in_block), in = delta * tiles.u(t, at.in_block);
        const auto b = tiles.b.part(t, at);
#pragma unroll
        for (int r = 0; r < kEach; ++r) h[r] = std::fma(in, b[r], math::exp(delta * a[r]) * h[r]);
      }
#pragma unroll
      for (int r = 0; r < kEach; ++r) before_tile[tile][r] = h[r];
    }
    for (int tile = count - 1; tile >= 0; --tile) {
      const int positions = positions_of(length - tile * kShortTile, kShortTile);
      const int64_t first = begin + tile * kShortTile;
      stage(first, positions);
      T before[kShortTile][kEach], decay[kShortTile][kEach];
#pragma unroll
      for (int r = 0; r < kEach; ++r) h[r] = before_tile[tile][r];
      repeat<kShortTile, kEach == kFew>([&](int t) {
        if (t >= positions) return;
        const T delta = tiles.delta(t, at.in_block), in = delta * tiles.u(t, at.in_block);
        const auto b = tiles.b.part(t, at);
#pragma unroll
        for (int r = 0; r < kEach; ++r) {
          before[t][r] = h[r], decay[t][r] = math::exp(delta * a[r]);
          h[r] = std::fma(in, b[r], decay[t][r] * h[r]);
        }
      });
      repeat<kShortTile, kEach == kFew>([&](int from_end) {
        const int t = kShortTile - 1 - from_end;
        if (t >= positions) return;
        const T delta = tiles.delta(t, at.in_block), u = tiles.u(t, at.in_block), g = dys(t, at.in_block),
                in = delta * u;
        const auto b = tiles.b.part(t, at), c = tiles.c.part(t, at);
        T din = 0, ddelta = 0;
#pragma unroll
        for (int r = 0; r < kEach; ++r) {
          T db = 0, dc = 0;
          if (r < at.count) {
            const T element = std::fma(g, c[r], dh[r]), kept = decay[t][r] * before[t][r],
                    dexponent = element * kept;
            din = std::fma(element, b[r], din), ddelta = std::fma(dexponent, a[r], ddelta);
            da[r] = std::fma(dexponent, delta, da[r]);
            db = element * in, dc = g * std::fma(in, b[r], kept);
            dh[r] = element * decay[t][r];
          }
          dbs.keep(at, t, at.first + r, db), dcs.keep(at, t, at.first + r, dc);
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
      const auto states = static_cast<int>(x.states);
      dbs.write(d.db + place, positions, states), dcs.write(d.dc + place, positions, states);
    }
  }
  at.for_each([&](int r, int s) { d.da[own + s] = da[r], d.dfirst[own + s] = dh[r]; });
  if (x.skip != nullptr && at.writes()) d.dskip[at.matrix * x.channels + channel] = dskip;
}

template <class T>
T* data_or_null(const Tensor& x) {
  return x.defined() ? x.data<T>() : nullptr;
}

/// For blocks of so many channels.
ScanLanes lanes_for(int64_t states, int64_t channels, const char* op) {
  return ScanLanes::of(states, kFew, kMostLanes, static_cast<unsigned>(channels), op, "a line of a");
}

}  // namespace

void selective_scan(Tensor& y, Tensor& state, Tensor& boundaries, const Tensor& u, const Tensor& delta,
                    const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& skip,
                    const Tensor& first) {
  const ScanLanes lanes = lanes_for(a.size(1), kWarp, "selective_scan");
  visit_device_floating(u.dtype(), "selective_scan", [&](auto type) {
    using S = typename decltype(type)::type;
    using T = AccumulatorOf<S>;
    const Scan<S> x(u, delta, a, b, c, skip, lanes);
    const unsigned blocks = scan_blocks(u.size(0), x.channels, lanes, "selective_scan");
    if (blocks == 0) return;
    visit_each<kFew>(lanes, [&](auto each) {
      const unsigned bytes = scan_shared<selective_kernel<each, S, T>, T>(
          Tiles<S>::room(x, kScanTile<each, T>), "selective_scan", "a");
      VITRINE_LAUNCH((selective_kernel<each, S, T>), blocks, lanes.threads, bytes, y.data<S>(),
                     state.data<T>(), data_or_null<T>(boundaries), x, first.data<T>());
    });
  });
}

void selective_scan_backward(Tensor& du, Tensor& ddelta, Tensor& da, Tensor& db, Tensor& dc, Tensor& dskip,
                             Tensor& dfirst, const Tensor& dy, const Tensor& dstate, const Tensor& u,
                             const Tensor& delta, const Tensor& a, const Tensor& b, const Tensor& c,
                             const Tensor& skip, const Tensor& boundaries) {
  const ScanLanes lanes = lanes_for(a.size(1), kScanChannels, "selective_scan_backward");
  visit_device_floating(u.dtype(), "selective_scan_backward", [&](auto type) {
    using S = typename decltype(type)::type;
    using T = AccumulatorOf<S>;
    const Scan<S> x(u, delta, a, b, c, skip, lanes);
    const unsigned blocks = scan_blocks(u.size(0), x.channels, lanes, "selective_scan_backward");
    if (blocks == 0) return;
    visit_each<kFew>(lanes, [&](auto each) {
      constexpr int kTile = kShortScanTile<each>;
      const int64_t room =
          Tiles<S>::room(x, kTile) + 2 * ChannelSums<T>::room(lanes, kTile) + kTile * x.lines;
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
