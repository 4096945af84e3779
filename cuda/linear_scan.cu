// The linear scan, step by step: the state of a strip is in shared memory. A block has 32 lanes,
// one for each column (or row) of its strip, and kDeep warps, which share the rows (or columns). A
// thread alone writes its elements of the state, so only the sums over warps need barriers.
#include "core/creation.h"
#include "cuda/block.h"
#include "cuda/strided.h"
#include "ops/kernels.h"

namespace vitrine::cuda {
namespace {

/// The rows of each head of an operand [B, H, T, n]. Undefined: data is null.
template <class S>
struct Rows {
  S* data = nullptr;
  int64_t heads = 1, batch_stride = 0, head_stride = 0, stride = 0;

  explicit Rows(const Tensor& x) {
    if (!x.defined()) return;
    data = x.data<S>(), heads = x.size(1);
    batch_stride = x.strides()[0], head_stride = x.strides()[1], stride = x.strides()[2];
  }
  __device__ S* row(int64_t head, int64_t t) const {
    return data + head / heads * batch_stride + head % heads * head_stride + t * stride;
  }
};

template <class T>
struct Decays {
  const T* log = nullptr;  ///< null: no decay
  bool of_rows = false;
  int64_t rows;

  Decays(const Tensor& g, int64_t rows) : rows(rows) {
    if (g.defined()) log = g.data<T>(), of_rows = g.rank() == 4;
  }
  /// The decay of row i at position t, counted over all heads.
  __device__ T at(int64_t t, int64_t i) const {
    return log == nullptr ? T(1) : math::exp(of_rows ? log[t * rows + i] : log[t]);
  }
};

/// The operands that all scans read.
template <class S>
struct Scan {
  Rows<S> q, k, to, from;
  Decays<AccumulatorOf<S>> decays;
  int64_t time, rows, columns, strips;
  AccumulatorOf<S> scale;

  Scan(const Tensor& q, const Tensor& k, const Tensor& to, const Tensor& from, const Tensor& g,
       int64_t columns, int64_t lanes, double scale)
      : q(q),
        k(k),
        to(to),
        from(from),
        decays(g, q.size(3)),
        time(q.size(2)),
        rows(q.size(3)),
        columns(columns),
        strips((lanes + kWarp - 1) / kWarp),
        scale(static_cast<AccumulatorOf<S>>(scale)) {}
  __device__ int64_t head() const { return blockIdx.x / strips; }
  /// The column (or row) of this thread, and whether it exists.
  __device__ int64_t lane() const { return blockIdx.x % strips * kWarp + threadIdx.x; }
};

/// The sum of the values of a column of threads, for each of them.
template <class T>
__device__ T sum_column(T mine) {
  __shared__ T of_thread[kDeep][kWarp];
  __syncthreads();  // now all threads have read the values of an earlier call
  of_thread[threadIdx.y][threadIdx.x] = mine;
  __syncthreads();
  T sum = of_thread[0][threadIdx.x];
  for (unsigned warp = 1; warp < kDeep; ++warp) sum += of_thread[warp][threadIdx.x];
  return sum;
}

template <class S, class T>
__global__ void scan_kernel(S* y, T* state, T* erased, T* boundaries, Scan<S> x, Rows<S> v, const T* first) {
  VITRINE_DYNAMIC_SHARED(T, s);  // [rows, kWarp]
  const int64_t head = x.head(), j = x.lane(), size = x.rows * x.columns;
  const bool active = j < x.columns;
  for (int64_t i = threadIdx.y; i < x.rows; i += kDeep)
    s[i * kWarp + threadIdx.x] = active ? first[head * size + i * x.columns + j] : T(0);
  for (int64_t t = 0; t < x.time; ++t) {
    if (boundaries != nullptr && active && t % kScanChunk == 0) {
      const int64_t chunks = (x.time + kScanChunk - 1) / kScanChunk;
      T* const kept = boundaries + (head * chunks + t / kScanChunk) * size + j;
      for (int64_t i = threadIdx.y; i < x.rows; i += kDeep) kept[i * x.columns] = s[i * kWarp + threadIdx.x];
    }
    const int64_t at = (head * x.time + t) * x.columns + j;
    T r = 0, sum = 0;
    if (x.from.data != nullptr) {
      const S* const from = x.from.row(head, t);
      for (int64_t i = threadIdx.y; i < x.rows; i += kDeep)
        r += static_cast<T>(from[i]) * s[i * kWarp + threadIdx.x];
      r = sum_column(r);
      if (erased != nullptr && active && threadIdx.y == 0) erased[at] = r;
    }
    const T vj = active ? static_cast<T>(v.row(head, t)[j]) : T(0);
    const S *const k = x.k.row(head, t), *const q = x.q.row(head, t);
    for (int64_t i = threadIdx.y; i < x.rows; i += kDeep) {
      T& element = s[i * kWarp + threadIdx.x];
      T next = element * x.decays.at(head * x.time + t, i);
      if (x.to.data != nullptr) next += static_cast<T>(x.to.row(head, t)[i]) * r;
      element = next + static_cast<T>(k[i]) * vj;
      sum += static_cast<T>(q[i]) * element;
    }
    sum = sum_column(sum);
    if (active && threadIdx.y == 0) y[at] = S(sum * x.scale);
  }
  for (int64_t i = threadIdx.y; active && i < x.rows; i += kDeep)
    state[head * size + i * x.columns + j] = s[i * kWarp + threadIdx.x];
}

/// dS from the last position to the first, in strips of columns.
template <class S, class T>
__global__ void scan_backward_columns_kernel(S* dv, T* added, T* dfirst, Scan<S> x, Rows<S> dy,
                                             const T* dstate) {
  VITRINE_DYNAMIC_SHARED(T, ds);  // [rows, kWarp]
  const int64_t head = x.head(), j = x.lane(), size = x.rows * x.columns;
  const bool active = j < x.columns;
  for (int64_t i = threadIdx.y; i < x.rows; i += kDeep)
    ds[i * kWarp + threadIdx.x] = active ? dstate[head * size + i * x.columns + j] : T(0);
  for (int64_t t = x.time - 1; t >= 0; --t) {
    const int64_t at = (head * x.time + t) * x.columns + j;
    const T d = active ? static_cast<T>(dy.row(head, t)[j]) * x.scale : T(0);
    const S *const k = x.k.row(head, t), *const q = x.q.row(head, t);
    T sum = 0, u = 0;
    for (int64_t i = threadIdx.y; i < x.rows; i += kDeep) {
      T& element = ds[i * kWarp + threadIdx.x];
      element += static_cast<T>(q[i]) * d;
      sum += static_cast<T>(k[i]) * element;
      if (x.to.data != nullptr) u += static_cast<T>(x.to.row(head, t)[i]) * element;
    }
    sum = sum_column(sum);
    if (active && threadIdx.y == 0) dv[at] = S(sum);
    if (x.to.data != nullptr) {
      u = sum_column(u);
      if (active && threadIdx.y == 0) added[at] = u;
    }
    for (int64_t i = threadIdx.y; i < x.rows; i += kDeep) {
      T& element = ds[i * kWarp + threadIdx.x];
      element *= x.decays.at(head * x.time + t, i);
      if (x.to.data != nullptr) element += static_cast<T>(x.from.row(head, t)[i]) * u;
    }
  }
  for (int64_t i = threadIdx.y; active && i < x.rows; i += kDeep)
    dfirst[head * size + i * x.columns + j] = ds[i * kWarp + threadIdx.x];
}

/// Gradients with one element per row of the state. Undefined: null.
template <class S>
struct RowGradients {
  using T = AccumulatorOf<S>;
  S *dq, *dk;
  T* dlog_decay;
  S *dto, *dfrom;
};

template <class S, class T>
struct RowOperands {
  Rows<S> v, dy;
  const T *dstate, *erased, *added, *boundaries;
};

/// The states of one chunk again, then dS through the chunk from its end; in strips of rows. Shared
/// memory has a row of S and of dS for each column, `states` the states of a chunk for each block.
template <class S, class T>
__global__ void scan_backward_rows_kernel(RowGradients<S> d, Scan<S> x, RowOperands<S, T> o, T* states) {
  VITRINE_DYNAMIC_SHARED(T, ds);  // [columns, kWarp]
  T* const s = ds + x.columns * kWarp;
  const int64_t head = x.head(), i = x.lane(), size = x.rows * x.columns, strip = x.columns * kWarp,
                chunks = (x.time + kScanChunk - 1) / kScanChunk;
  const bool active = i < x.rows, writes = active && threadIdx.y == 0, erases = x.to.data != nullptr;
  states += int64_t{blockIdx.x} * kScanChunk * strip;
  const auto each = [&](auto f) {
    for (int64_t j = threadIdx.y; j < x.columns; j += kDeep) f(j, j * kWarp + threadIdx.x);
  };
  const auto row = [&](const Rows<S>& y, int64_t t) {
    return active ? static_cast<T>(y.row(head, t)[i]) : T(0);
  };
  each([&](int64_t j, int64_t at) { ds[at] = active ? o.dstate[head * size + i * x.columns + j] : T(0); });
  for (int64_t chunk = chunks - 1; chunk >= 0; --chunk) {
    const int64_t begin = chunk * kScanChunk, end = begin + kScanChunk < x.time ? begin + kScanChunk : x.time;
    const T* const boundary = o.boundaries + (head * chunks + chunk) * size + i * x.columns;
    each([&](int64_t j, int64_t at) { s[at] = active ? boundary[j] : T(0); });
    for (int64_t t = begin; t < end; ++t) {
      const T w = active ? x.decays.at(head * x.time + t, i) : T(0), k = row(x.k, t),
              to = erases ? row(x.to, t) : T(0);
      T dq = 0;
      each([&](int64_t j, int64_t at) {
        states[(t - begin) * strip + at] = s[at];
        T next = s[at] * w;
        if (erases) next += to * o.erased[(head * x.time + t) * x.columns + j];
        s[at] = next + k * static_cast<T>(o.v.row(head, t)[j]);
        dq += s[at] * static_cast<T>(o.dy.row(head, t)[j]);
      });
      dq = sum_column(dq);
      if (writes) d.dq[(head * x.time + t) * x.rows + i] = S(dq * x.scale);
    }
    for (int64_t t = end - 1; t >= begin; --t) {
      const T w = active ? x.decays.at(head * x.time + t, i) : T(0), q = row(x.q, t) * x.scale,
              from = erases ? row(x.from, t) : T(0);
      T dk = 0, dw = 0, dto = 0, dfrom = 0;
      each([&](int64_t j, int64_t at) {
        const int64_t wide = (head * x.time + t) * x.columns + j;
        const T before = states[(t - begin) * strip + at];
        const T element = ds[at] + q * static_cast<T>(o.dy.row(head, t)[j]);
        dk += element * static_cast<T>(o.v.row(head, t)[j]);
        dw += element * before;
        ds[at] = element * w;
        if (!erases) return;
        dto += element * o.erased[wide], dfrom += before * o.added[wide];
        ds[at] += from * o.added[wide];
      });
      const int64_t at = (head * x.time + t) * x.rows + i;
      dk = sum_column(dk);
      if (writes) d.dk[at] = S(dk);
      if (d.dlog_decay != nullptr) {
        dw = sum_column(dw);
        if (writes) d.dlog_decay[at] = dw * w;
      }
      if (!erases) continue;
      dto = sum_column(dto), dfrom = sum_column(dfrom);
      if (writes) d.dto[at] = S(dto), d.dfrom[at] = S(dfrom);
    }
  }
}

template <class T>
T* data_or_null(const Tensor& x) {
  return x.defined() ? x.data<T>() : nullptr;
}

/// Bytes of shared memory for `lines` lines of 32 elements of T.
template <auto kKernel, class T>
unsigned shared_for(int64_t lines, const char* argument) {
  const int64_t bytes = lines * int64_t{kWarp} * static_cast<int64_t>(sizeof(T));
  const size_t most = allow_shared<kKernel>();
  check(bytes <= static_cast<int64_t>(most),
        "linear_scan: {} is too large for a GPU: a strip of the state takes {} bytes of shared memory, of {}",
        argument, bytes, most);
  return static_cast<unsigned>(bytes);
}

}  // namespace

void linear_scan(Tensor& y, Tensor& state, Tensor& erased, Tensor& boundaries, const Tensor& q,
                 const Tensor& k, const Tensor& v, const Tensor& log_decay, const Tensor& erase_to,
                 const Tensor& erase_from, const Tensor& first, double scale) {
  visit_device_floating(q.dtype(), "linear_scan", [&](auto type) {
    using S = typename decltype(type)::type;
    using T = AccumulatorOf<S>;
    const int64_t columns = v.size(3);
    const Scan<S> x(q, k, erase_to, erase_from, log_decay, columns, columns, scale);
    const unsigned blocks = grid_of(q.size(0) * q.size(1) * x.strips, "linear_scan", "strips of columns");
    if (blocks == 0) return;
    const unsigned shared = shared_for<scan_kernel<S, T>, T>(x.rows, "dk");
    VITRINE_LAUNCH((scan_kernel<S, T>), blocks, dim3(kWarp, kDeep), shared, y.data<S>(), state.data<T>(),
                   data_or_null<T>(erased), data_or_null<T>(boundaries), x, Rows<S>(v), first.data<T>());
  });
}

void linear_scan_backward_columns(Tensor& dv, Tensor& added, Tensor& dfirst, const Tensor& dy,
                                  const Tensor& dstate, const Tensor& q, const Tensor& k,
                                  const Tensor& log_decay, const Tensor& erase_to, const Tensor& erase_from,
                                  double scale) {
  visit_device_floating(q.dtype(), "linear_scan_backward", [&](auto type) {
    using S = typename decltype(type)::type;
    using T = AccumulatorOf<S>;
    const int64_t columns = dy.size(3);
    const Scan<S> x(q, k, erase_to, erase_from, log_decay, columns, columns, scale);
    const unsigned blocks =
        grid_of(q.size(0) * q.size(1) * x.strips, "linear_scan_backward", "strips of columns");
    if (blocks == 0) return;
    const unsigned shared = shared_for<scan_backward_columns_kernel<S, T>, T>(x.rows, "dk");
    VITRINE_LAUNCH((scan_backward_columns_kernel<S, T>), blocks, dim3(kWarp, kDeep), shared, dv.data<S>(),
                   data_or_null<T>(added), dfirst.data<T>(), x, Rows<S>(dy), dstate.data<T>());
  });
}

void linear_scan_backward_rows(Tensor& dq, Tensor& dk, Tensor& dlog_decay, Tensor& derase_to,
                               Tensor& derase_from, const Tensor& dy, const Tensor& dstate, const Tensor& q,
                               const Tensor& k, const Tensor& v, const Tensor& log_decay,
                               const Tensor& erase_to, const Tensor& erase_from, const Tensor& erased,
                               const Tensor& added, const Tensor& boundaries, double scale) {
  visit_device_floating(q.dtype(), "linear_scan_backward", [&](auto type) {
    using S = typename decltype(type)::type;
    using T = AccumulatorOf<S>;
    const int64_t columns = v.size(3);
    const Scan<S> x(q, k, erase_to, erase_from, log_decay, columns, q.size(3), scale);
    const unsigned blocks =
        grid_of(q.size(0) * q.size(1) * x.strips, "linear_scan_backward", "strips of rows");
    if (blocks == 0) return;
    const unsigned shared = shared_for<scan_backward_rows_kernel<S, T>, T>(2 * columns, "dv");
    Tensor states =
        empty({int64_t{blocks} * kScanChunk, columns, int64_t{kWarp}}, dstate.dtype(), q.device());
    VITRINE_LAUNCH((scan_backward_rows_kernel<S, T>), blocks, dim3(kWarp, kDeep), shared,
                   RowGradients<S>{dq.data<S>(), dk.data<S>(), data_or_null<T>(dlog_decay),
                                   data_or_null<S>(derase_to), data_or_null<S>(derase_from)},
                   x,
                   RowOperands<S, T>{Rows<S>(v), Rows<S>(dy), dstate.data<T>(), data_or_null<T>(erased),
                                     data_or_null<T>(added), boundaries.data<T>()},
                   states.data<T>());
  });
}

}  // namespace vitrine::cuda
