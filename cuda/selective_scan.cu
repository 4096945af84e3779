// The selective scan, step by step: a thread owns a channel of a row of the batch, and a block one
// group of kScanChannels channels. Neighbouring threads read neighbouring channels.
#include "core/creation.h"
#include "cuda/block.h"
#include "cuda/strided.h"
#include "ops/kernels.h"

namespace vitrine::cuda {
namespace {

static_assert(kScanChannels % kWarp == 0);

template <class S>
struct Scan {
  using T = AccumulatorOf<S>;
  const S *u, *delta, *b, *c;
  const T *a, *skip;  ///< skip is null if there is none
  int64_t time, channels, states, groups;

  Scan(const Tensor& u, const Tensor& delta, const Tensor& a, const Tensor& b, const Tensor& c,
       const Tensor& skip)
      : u(u.data<S>()),
        delta(delta.data<S>()),
        b(b.data<S>()),
        c(c.data<S>()),
        a(a.data<T>()),
        skip(skip.defined() ? skip.data<T>() : nullptr),
        time(u.size(1)),
        channels(u.size(2)),
        states(a.size(1)),
        groups((u.size(2) + kScanChannels - 1) / kScanChannels) {}
  __device__ int64_t row() const { return blockIdx.x / groups; }
  __device__ int64_t channel() const { return blockIdx.x % groups * kScanChannels + threadIdx.x; }
  /// Where position t of b and c is, and of a group's part of db and dc.
  __device__ int64_t of_states(int64_t row, int64_t t) const { return (row * time + t) * states; }
};

template <class S, class T>
__global__ void selective_kernel(S* y, T* state, T* boundaries, Scan<S> x, const T* first) {
  VITRINE_DYNAMIC_SHARED(T, h);  // [states, kScanChannels]
  const int64_t row = x.row(), i = x.channel(), chunks = (x.time + kScanChunk - 1) / kScanChunk;
  if (i >= x.channels) return;
  const T* const a = x.a + i * x.states;
  const auto at = [&](int64_t s) -> T& { return h[s * kScanChannels + threadIdx.x]; };
  for (int64_t s = 0; s < x.states; ++s) at(s) = first[(row * x.channels + i) * x.states + s];
  for (int64_t t = 0; t < x.time; ++t) {
    if (boundaries != nullptr && t % kScanChunk == 0)
      for (int64_t s = 0; s < x.states; ++s)
        boundaries[((row * chunks + t / kScanChunk) * x.channels + i) * x.states + s] = at(s);
    const int64_t place = (row * x.time + t) * x.channels + i;
    const T delta = static_cast<T>(x.delta[place]), u = static_cast<T>(x.u[place]), in = delta * u;
    const S *const b = x.b + x.of_states(row, t), *const c = x.c + x.of_states(row, t);
    T sum = 0;
    for (int64_t s = 0; s < x.states; ++s) {
      at(s) = math::exp(delta * a[s]) * at(s) + in * static_cast<T>(b[s]);
      sum += static_cast<T>(c[s]) * at(s);
    }
    y[place] = S(x.skip ? sum + x.skip[i] * u : sum);
  }
  for (int64_t s = 0; s < x.states; ++s) state[(row * x.channels + i) * x.states + s] = at(s);
}

template <class S>
struct Gradients {
  using T = AccumulatorOf<S>;
  S *du, *ddelta;
  T *da, *db, *dc, *dskip, *dfirst;
};

/// Each chunk from its boundary again, then from its end. `kept` holds the states of a chunk for
/// each block. Threads without a channel take part in the sums over channels.
template <class S, class T>
__global__ void selective_backward_kernel(Gradients<S> d, Scan<S> x, const S* dy, const T* dstate,
                                          const T* boundaries, T* kept) {
  VITRINE_DYNAMIC_SHARED(T, h);  // h, dh and da [states, kScanChannels] each
  const int64_t row = x.row(), i = x.channel(), chunks = (x.time + kScanChunk - 1) / kScanChunk,
                size = x.states * kScanChannels, own = (row * x.channels + i) * x.states;
  const bool active = i < x.channels;
  const T* const a = x.a + i * x.states;
  T *const dh = h + size, *const da = dh + size;
  kept += int64_t{blockIdx.x} * kScanChunk * size;
  const auto at = [&](int64_t s) { return s * kScanChannels + threadIdx.x; };
  const auto of = [&](const S* y, int64_t t) {
    return active ? static_cast<T>(y[(row * x.time + t) * x.channels + i]) : T(0);
  };
  for (int64_t s = 0; s < x.states; ++s) dh[at(s)] = active ? dstate[own + s] : T(0), da[at(s)] = 0;
  T dskip = 0;
  for (int64_t chunk = chunks - 1; chunk >= 0; --chunk) {
    const int64_t begin = chunk * kScanChunk, end = begin + kScanChunk < x.time ? begin + kScanChunk : x.time;
    for (int64_t s = 0; s < x.states; ++s)
      h[at(s)] = active ? boundaries[((row * chunks + chunk) * x.channels + i) * x.states + s] : T(0);
    for (int64_t t = begin; t < end && active; ++t)
      for (int64_t s = 0; s < x.states; ++s) {
        const T delta = of(x.delta, t), b = static_cast<T>(x.b[x.of_states(row, t) + s]);
        kept[(t - begin) * size + at(s)] = h[at(s)];
        h[at(s)] = math::exp(delta * a[s]) * h[at(s)] + delta * of(x.u, t) * b;
      }
    for (int64_t t = end - 1; t >= begin; --t) {
      const T delta = of(x.delta, t), u = of(x.u, t), g = of(dy, t), in = delta * u;
      T din = 0, ddelta = 0;
      for (int64_t s = 0; s < x.states; ++s) {
        const T b = static_cast<T>(x.b[x.of_states(row, t) + s]),
                c = static_cast<T>(x.c[x.of_states(row, t) + s]);
        T db = 0, dc = 0;
        if (active) {
          const T before = kept[(t - begin) * size + at(s)], decay = math::exp(delta * a[s]);
          const T element = dh[at(s)] + g * c, dexponent = element * before * decay;
          din += element * b, ddelta += dexponent * a[s], da[at(s)] += dexponent * delta;
          db = element * in, dc = g * (decay * before + in * b);
          dh[at(s)] = element * decay;
        }
        db = sum_block(db), dc = sum_block(dc);
        if (threadIdx.x != 0) continue;
        const int64_t place = x.of_states(blockIdx.x, t) + s;
        d.db[place] = db, d.dc[place] = dc;
      }
      if (!active) continue;
      const int64_t place = (row * x.time + t) * x.channels + i;
      d.du[place] = S(x.skip ? din * delta + g * x.skip[i] : din * delta);
      d.ddelta[place] = S(ddelta + din * u);
      dskip += g * u;
    }
  }
  if (!active) return;
  for (int64_t s = 0; s < x.states; ++s) d.da[own + s] = da[at(s)], d.dfirst[own + s] = dh[at(s)];
  if (x.skip) d.dskip[row * x.channels + i] = dskip;
}

template <class T>
T* data_or_null(const Tensor& x) {
  return x.defined() ? x.data<T>() : nullptr;
}

/// Bytes of shared memory for `lines` lines of kScanChannels elements of T.
template <auto kKernel, class T>
unsigned shared_for(int64_t lines) {
  const int64_t bytes = lines * kScanChannels * static_cast<int64_t>(sizeof(T));
  const size_t most = allow_shared<kKernel>();
  check(bytes <= static_cast<int64_t>(most),
        "selective_scan: a is too wide for a GPU: its states take {} bytes of shared memory, of {}", bytes,
        most);
  return static_cast<unsigned>(bytes);
}

}  // namespace

void selective_scan(Tensor& y, Tensor& state, Tensor& boundaries, const Tensor& u, const Tensor& delta,
                    const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& skip,
                    const Tensor& first) {
  visit_device_floating(u.dtype(), "selective_scan", [&](auto type) {
    using S = typename decltype(type)::type;
    using T = AccumulatorOf<S>;
    const Scan<S> x(u, delta, a, b, c, skip);
    const unsigned blocks = grid_of(u.size(0) * x.groups, "selective_scan", "groups of channels");
    if (blocks == 0) return;
    const unsigned shared = shared_for<selective_kernel<S, T>, T>(x.states);
    VITRINE_LAUNCH((selective_kernel<S, T>), blocks, unsigned{kScanChannels}, shared, y.data<S>(),
                   state.data<T>(), data_or_null<T>(boundaries), x, first.data<T>());
  });
}

void selective_scan_backward(Tensor& du, Tensor& ddelta, Tensor& da, Tensor& db, Tensor& dc, Tensor& dskip,
                             Tensor& dfirst, const Tensor& dy, const Tensor& dstate, const Tensor& u,
                             const Tensor& delta, const Tensor& a, const Tensor& b, const Tensor& c,
                             const Tensor& skip, const Tensor& boundaries) {
  visit_device_floating(u.dtype(), "selective_scan_backward", [&](auto type) {
    using S = typename decltype(type)::type;
    using T = AccumulatorOf<S>;
    const Scan<S> x(u, delta, a, b, c, skip);
    const unsigned blocks = grid_of(u.size(0) * x.groups, "selective_scan_backward", "groups of channels");
    if (blocks == 0) return;
    const unsigned shared = shared_for<selective_backward_kernel<S, T>, T>(3 * x.states);
    const Tensor kept = empty({int64_t{blocks}, kScanChunk, x.states, kScanChannels}, da.dtype(), u.device());
    VITRINE_LAUNCH((selective_backward_kernel<S, T>), blocks, unsigned{kScanChannels}, shared,
                   Gradients<S>{du.data<S>(), ddelta.data<S>(), da.data<T>(), db.data<T>(), dc.data<T>(),
                                data_or_null<T>(dskip), dfirst.data<T>()},
                   x, dy.data<S>(), dstate.data<T>(), boundaries.data<T>(), kept.data<T>());
  });
}

}  // namespace vitrine::cuda
