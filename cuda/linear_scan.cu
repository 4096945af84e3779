// The linear scan, step by step, with the state in registers (cuda/scan_lines.h). The forward and
// the first backward have columns of the state as lines, the second backward has rows.
#include "core/creation.h"
#include "cuda/scan_lines.h"
#include "cuda/strided.h"
#include "ops/kernels.h"

namespace vitrine::cuda {
namespace {

/// Elements of a line that a thread holds, unless a line is too long for a warp.
constexpr int kFew = 8;
ScanLanes lanes_for(int64_t n, const char* op, const char* argument) {
  return ScanLanes::of(n, kFew, kWarp, 0, op, argument);
}
constexpr int kThreadsOfScan = 128;

/// The rows of one head of an operand. Undefined: data is null.
template <class S>
struct HeadRows {
  S* data;
  int64_t stride;

  /// Copies elements of rows of n, from element `first` on, for the positions from `begin` on.
  template <class T>
  __device__ void copy_to(const ScanTile<T>& tile, int64_t begin, int positions, int64_t first,
                          int64_t n) const {
    tile.copy(positions, data + begin * stride, stride, first, n);
  }
};

/// The rows of each head of an operand [B, H, T, n].
template <class S>
struct Rows {
  S* data = nullptr;
  int64_t heads = 1, batch_stride = 0, head_stride = 0, stride = 0;

  explicit Rows(const Tensor& x) {
    if (!x.defined()) return;
    data = x.data<S>(), heads = x.size(1);
    batch_stride = x.strides()[0], head_stride = x.strides()[1], stride = x.strides()[2];
  }
  __device__ HeadRows<S> of(int64_t head) const {
    return {data + head / heads * batch_stride + head % heads * head_stride, stride};
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
  /// Fills a tile with the decays of rows first, first + 1, … at positions from `begin` on, which
  /// are counted over all heads.
  __device__ void copy_to(const ScanTile<T>& tile, int64_t begin, int positions, int64_t first) const {
    const auto exponential = [](T x) { return math::exp(x); };
    if (log == nullptr) {
      tile.fill(
          positions, rows - first, [](int, int) { return T(1); }, [](T x) { return x; });
    } else if (of_rows) {
      const T* const from = log + begin * rows + first;
      tile.fill(
          positions, rows - first, [&](int t, int i) { return from[t * rows + i]; }, exponential);
    } else {
      tile.fill(
          positions, rows - first, [&](int t, int) { return log[begin + t]; }, exponential);
    }
  }
};

/// The operands that all scans read.
template <class S>
struct Scan {
  using T = AccumulatorOf<S>;
  Rows<S> q, k, to, from;
  Decays<T> decays;
  int64_t time, rows, columns;
  T scale;
  int lanes, width, lines;  ///< as in ScanLanes

  Scan(const Tensor& q, const Tensor& k, const Tensor& to, const Tensor& from, const Tensor& g,
       int64_t columns, double scale, const ScanLanes& lanes)
      : q(q),
        k(k),
        to(to),
        from(from),
        decays(g, q.size(3)),
        time(q.size(2)),
        rows(q.size(3)),
        columns(columns),
        scale(static_cast<T>(scale)),
        lanes(lanes.lanes),
        width(lanes.width()),
        lines(lanes.lines_per_block()) {}
  __device__ bool erases() const { return to.data != nullptr; }
};

/// Positions of a tile, where lines are columns.
constexpr int kTile = 16;

/// The tiles for lines that are columns: vectors with an element per row of the state, for all
/// lines, and of v (or dy) the elements of this block's columns.
template <class S>
struct RowTiles {
  using T = AccumulatorOf<S>;
  ScanTile<T> q, k, decay, to, from, v;
  HeadRows<S> q_rows, k_rows, to_rows, from_rows, v_rows;

  __device__ RowTiles(T* room, const Scan<S>& x, const Rows<S>& v, int64_t head)
      : q(room, kTile, x.width),
        k(room, kTile, x.width),
        decay(room, kTile, x.width),
        to(room, x.erases() ? kTile : 0, x.width),
        from(room, x.erases() ? kTile : 0, x.width),
        v(room, kTile, x.lines),
        q_rows(x.q.of(head)),
        k_rows(x.k.of(head)),
        to_rows(x.to.of(head)),
        from_rows(x.from.of(head)),
        v_rows(v.of(head)) {}
  static int64_t room(const Scan<S>& x, bool erases) {
    return kTile * ((erases ? 5 : 3) * x.width + x.lines);
  }

  __device__ void copy_from(const Scan<S>& x, int64_t head, int64_t first_column, int64_t begin,
                            int positions) const {
    q_rows.copy_to(q, begin, positions, 0, x.rows);
    k_rows.copy_to(k, begin, positions, 0, x.rows);
    v_rows.copy_to(v, begin, positions, first_column, x.columns);
    x.decays.copy_to(decay, head * x.time + begin, positions, 0);
    if (!x.erases()) return;
    to_rows.copy_to(to, begin, positions, 0, x.rows);
    from_rows.copy_to(from, begin, positions, 0, x.rows);
  }
};

template <int kEach, class S, class T>
__global__ void __launch_bounds__(kThreadsOfScan)
    scan_kernel(S* y, T* state, T* erased, T* boundaries, Scan<S> x, Rows<S> v, const T* first) {
  VITRINE_DYNAMIC_SHARED(T, shared);
  const ScanPlace<kEach> at(x.lanes, x.columns, x.rows);
  const RowTiles<S> tiles(shared, x, v, at.matrix);
  const int64_t head = at.matrix, j = at.line, size = x.rows * x.columns,
                chunks = (x.time + kScanChunk - 1) / kScanChunk;
  T s[kEach] = {};
  at.for_each([&](int r, int i) { s[r] = first[head * size + i * x.columns + j]; });
  for (int64_t begin = 0; begin < x.time; begin += kTile) {
    const int positions = positions_of(x.time - begin, kTile);
    if (boundaries != nullptr && begin % kScanChunk == 0) {
      T* const kept = boundaries + (head * chunks + begin / kScanChunk) * size + j;
      at.for_each([&](int r, int i) { kept[i * x.columns] = s[r]; });
    }
    __syncthreads();  // now all threads have read the tile before
    tiles.copy_from(x, head, at.first_line(), begin, positions);
    __syncthreads();
    int64_t wide = (head * x.time + begin) * x.columns + j;
    for (int t = 0; t < positions; ++t, wide += x.columns) {
      const T value = tiles.v(t, at.in_block);
      const auto k = tiles.k.part(t, at), decay = tiles.decay.part(t, at);
      if (x.erases()) {
        const T read = at.template dot<T>(tiles.from.part(t, at), s);
        if (erased != nullptr && at.writes()) erased[wide] = read;
        const auto to = tiles.to.part(t, at);
#pragma unroll
        for (int r = 0; r < kEach; ++r) s[r] = std::fma(k[r], value, std::fma(to[r], read, s[r] * decay[r]));
      } else {
#pragma unroll
        for (int r = 0; r < kEach; ++r) s[r] = std::fma(k[r], value, s[r] * decay[r]);
      }
      const T sum = at.template dot<T>(tiles.q.part(t, at), s);
      if (at.writes()) y[wide] = S(sum * x.scale);
    }
  }
  at.for_each([&](int r, int i) { state[head * size + i * x.columns + j] = s[r]; });
}

/// dS from the last position to the first.
template <int kEach, class S, class T>
__global__ void __launch_bounds__(kThreadsOfScan)
    scan_backward_columns_kernel(S* dv, T* added, T* dfirst, Scan<S> x, Rows<S> dy, const T* dstate) {
  VITRINE_DYNAMIC_SHARED(T, shared);
  const ScanPlace<kEach> at(x.lanes, x.columns, x.rows);
  const RowTiles<S> tiles(shared, x, dy, at.matrix);
  const int64_t head = at.matrix, j = at.line, size = x.rows * x.columns;
  T ds[kEach] = {};
  at.for_each([&](int r, int i) { ds[r] = dstate[head * size + i * x.columns + j]; });
  for (int64_t end = x.time; end > 0;) {
    const int positions = positions_of(end, kTile);
    end -= positions;
    __syncthreads();
    tiles.copy_from(x, head, at.first_line(), end, positions);
    __syncthreads();
    int64_t wide = (head * x.time + end + positions - 1) * x.columns + j;
    for (int t = positions - 1; t >= 0; --t, wide -= x.columns) {
      const T d = tiles.v(t, at.in_block) * x.scale;
      const auto q = tiles.q.part(t, at), decay = tiles.decay.part(t, at);
#pragma unroll
      for (int r = 0; r < kEach; ++r) ds[r] = std::fma(q[r], d, ds[r]);
      const T sum = at.template dot<T>(tiles.k.part(t, at), ds);
      if (at.writes()) dv[wide] = S(sum);
      T u = 0;
      if (x.erases()) {
        u = at.template dot<T>(tiles.to.part(t, at), ds);
        if (at.writes()) added[wide] = u;
        const auto from = tiles.from.part(t, at);
#pragma unroll
        for (int r = 0; r < kEach; ++r) ds[r] = std::fma(from[r], u, ds[r] * decay[r]);
      } else {
#pragma unroll
        for (int r = 0; r < kEach; ++r) ds[r] *= decay[r];
      }
    }
  }
  at.for_each([&](int r, int i) { dfirst[head * size + i * x.columns + j] = ds[r]; });
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

/// Positions of a tile, where lines are rows: a thread holds the states of one tile in registers.
constexpr int kShortTile = 8;

/// The tiles for lines that are rows: vectors with an element per column, for all lines, and
/// elements of the rows of this block.
template <class S>
struct ColumnTiles {
  using T = AccumulatorOf<S>;
  ScanTile<T> v, dy, erased, added, q, k, decay, to, from;
  HeadRows<S> v_rows, dy_rows, q_rows, k_rows, to_rows, from_rows;

  __device__ ColumnTiles(T* room, const Scan<S>& x, const RowOperands<S, T>& o, int64_t head)
      : v(room, kShortTile, x.width),
        dy(room, kShortTile, x.width),
        erased(room, x.erases() ? kShortTile : 0, x.width),
        added(room, x.erases() ? kShortTile : 0, x.width),
        q(room, kShortTile, x.lines),
        k(room, kShortTile, x.lines),
        decay(room, kShortTile, x.lines),
        to(room, x.erases() ? kShortTile : 0, x.lines),
        from(room, x.erases() ? kShortTile : 0, x.lines),
        v_rows(o.v.of(head)),
        dy_rows(o.dy.of(head)),
        q_rows(x.q.of(head)),
        k_rows(x.k.of(head)),
        to_rows(x.to.of(head)),
        from_rows(x.from.of(head)) {}
  static int64_t room(const Scan<S>& x, bool erases) {
    return kShortTile * ((erases ? 4 : 2) * x.width + (erases ? 5 : 3) * x.lines);
  }

  /// Copies what the state is computed from; with `gradients`, also what dS is computed from.
  __device__ void copy_from(const Scan<S>& x, const RowOperands<S, T>& o, int64_t head, int64_t first,
                            int64_t begin, int positions, bool gradients) const {
    const int64_t wide = (head * x.time + begin) * x.columns;
    v_rows.copy_to(v, begin, positions, 0, x.columns);
    k_rows.copy_to(k, begin, positions, first, x.rows);
    x.decays.copy_to(decay, head * x.time + begin, positions, first);
    if (gradients) {
      dy_rows.copy_to(dy, begin, positions, 0, x.columns);
      q_rows.copy_to(q, begin, positions, first, x.rows);
    }
    if (!x.erases()) return;
    erased.copy(positions, o.erased + wide, x.columns, 0, x.columns);
    to_rows.copy_to(to, begin, positions, first, x.rows);
    if (!gradients) return;
    added.copy(positions, o.added + wide, x.columns, 0, x.columns);
    from_rows.copy_to(from, begin, positions, first, x.rows);
  }
};

/// Chunk by chunk, from the last one. A first walk through a chunk keeps the state before each of
/// its tiles. Then, from the last tile, the states of the tile are computed again, and dS goes
/// through them.
template <int kEach, class S, class T>
__global__ void __launch_bounds__(kThreadsOfScan, kEach == kFew && sizeof(T) == 4 ? 3 : 1)
    scan_backward_rows_kernel(RowGradients<S> d, Scan<S> x, RowOperands<S, T> o) {
  constexpr int kTiles = kScanChunk / kShortTile;
  VITRINE_DYNAMIC_SHARED(T, shared);
  const ScanPlace<kEach> at(x.lanes, x.rows, x.columns);
  const ColumnTiles<S> tiles(shared, x, o, at.matrix);
  const int64_t head = at.matrix, i = at.line, size = x.rows * x.columns,
                chunks = (x.time + kScanChunk - 1) / kScanChunk;
  const int line = at.in_block;
  const bool erases = x.erases();
  const auto stage = [&](int64_t begin, int positions, bool gradients) {
    __syncthreads();  // now all threads have read the tile before
    tiles.copy_from(x, o, head, at.first_line(), begin, positions, gradients);
    __syncthreads();
  };
  T s[kEach] = {}, ds[kEach] = {}, before_tile[kTiles][kEach] = {};
  const auto step = [&](int t) {  // S after position t of the tile
    const T k = tiles.k(t, line), decay = tiles.decay(t, line);
    const auto v = tiles.v.part(t, at);
#pragma unroll
    for (int r = 0; r < kEach; ++r) s[r] = std::fma(k, v[r], s[r] * decay);
    if (!erases) return;
    const T to = tiles.to(t, line);
    const auto erased = tiles.erased.part(t, at);
#pragma unroll
    for (int r = 0; r < kEach; ++r) s[r] = std::fma(to, erased[r], s[r]);
  };
  at.for_each([&](int r, int j) { ds[r] = o.dstate[head * size + i * x.columns + j]; });
  for (int64_t chunk = chunks - 1; chunk >= 0; --chunk) {
    const int64_t begin = chunk * kScanChunk;
    const int length = positions_of(x.time - begin, kScanChunk),
              count = (length + kShortTile - 1) / kShortTile;
    const T* const boundary = o.boundaries + (head * chunks + chunk) * size + i * x.columns;
    at.for_each([&](int r, int j) { before_tile[0][r] = s[r] = boundary[j]; });
    for (int tile = 1; tile < count; ++tile) {
      stage(begin + (tile - 1) * kShortTile, kShortTile, false);
      for (int t = 0; t < kShortTile; ++t) step(t);
#pragma unroll
      for (int r = 0; r < kEach; ++r) before_tile[tile][r] = s[r];
    }
    for (int tile = count - 1; tile >= 0; --tile) {
      const int positions = positions_of(length - tile * kShortTile, kShortTile);
      const int64_t first = begin + tile * kShortTile;
      stage(first, positions, true);
      T before[kShortTile][kEach];
#pragma unroll
      for (int r = 0; r < kEach; ++r) s[r] = before_tile[tile][r];
      repeat<kShortTile, kEach == kFew>([&](int t) {
        if (t >= positions) return;
#pragma unroll
        for (int r = 0; r < kEach; ++r) before[t][r] = s[r];
        step(t);
        const T dq = at.template dot<T>(tiles.dy.part(t, at), s);
        if (at.writes()) d.dq[(head * x.time + first + t) * x.rows + i] = S(dq * x.scale);
      });
      repeat<kShortTile, kEach == kFew>([&](int from_end) {
        const int t = kShortTile - 1 - from_end;
        if (t >= positions) return;
        const int64_t place = (head * x.time + first + t) * x.rows + i;
        const T decay = tiles.decay(t, line), q = tiles.q(t, line) * x.scale;
        const auto dy = tiles.dy.part(t, at);
#pragma unroll
        for (int r = 0; r < kEach; ++r) ds[r] = std::fma(q, dy[r], ds[r]);
        const T dk = at.template dot<T>(tiles.v.part(t, at), ds);
        if (at.writes()) d.dk[place] = S(dk);
        if (d.dlog_decay != nullptr) {
          const T dw = at.template dot<T>(before[t], ds);
          if (at.writes()) d.dlog_decay[place] = dw * decay;
        }
        if (erases) {
          const auto added = tiles.added.part(t, at);
          const T dto = at.template dot<T>(tiles.erased.part(t, at), ds),
                  dfrom = at.template dot<T>(added, before[t]), from = tiles.from(t, line);
          if (at.writes()) d.dto[place] = S(dto), d.dfrom[place] = S(dfrom);
#pragma unroll
          for (int r = 0; r < kEach; ++r) ds[r] = std::fma(from, added[r], ds[r] * decay);
        } else {
#pragma unroll
          for (int r = 0; r < kEach; ++r) ds[r] *= decay;
        }
      });
    }
  }
}

template <class T>
T* data_or_null(const Tensor& x) {
  return x.defined() ? x.data<T>() : nullptr;
}

}  // namespace

void linear_scan(Tensor& y, Tensor& state, Tensor& erased, Tensor& boundaries, const Tensor& q,
                 const Tensor& k, const Tensor& v, const Tensor& log_decay, const Tensor& erase_to,
                 const Tensor& erase_from, const Tensor& first, double scale) {
  const ScanLanes lanes = lanes_for(q.size(3), "linear_scan", "dk");
  visit_device_floating(q.dtype(), "linear_scan", [&](auto type) {
    using S = typename decltype(type)::type;
    using T = AccumulatorOf<S>;
    const Scan<S> x(q, k, erase_to, erase_from, log_decay, v.size(3), scale, lanes);
    const unsigned blocks = scan_blocks(q.size(0) * q.size(1), x.columns, lanes, "linear_scan");
    if (blocks == 0) return;
    const int64_t room = RowTiles<S>::room(x, erase_to.defined());
    visit_each<kFew>(lanes, [&](auto each) {
      const unsigned shared = scan_shared<scan_kernel<each, S, T>, T>(room, "linear_scan", "dk");
      VITRINE_LAUNCH((scan_kernel<each, S, T>), blocks, lanes.threads, shared, y.data<S>(), state.data<T>(),
                     data_or_null<T>(erased), data_or_null<T>(boundaries), x, Rows<S>(v), first.data<T>());
    });
  });
}

void linear_scan_backward_columns(Tensor& dv, Tensor& added, Tensor& dfirst, const Tensor& dy,
                                  const Tensor& dstate, const Tensor& q, const Tensor& k,
                                  const Tensor& log_decay, const Tensor& erase_to, const Tensor& erase_from,
                                  double scale) {
  const ScanLanes lanes = lanes_for(q.size(3), "linear_scan_backward", "dk");
  visit_device_floating(q.dtype(), "linear_scan_backward", [&](auto type) {
    using S = typename decltype(type)::type;
    using T = AccumulatorOf<S>;
    const Scan<S> x(q, k, erase_to, erase_from, log_decay, dy.size(3), scale, lanes);
    const unsigned blocks = scan_blocks(q.size(0) * q.size(1), x.columns, lanes, "linear_scan_backward");
    if (blocks == 0) return;
    const int64_t room = RowTiles<S>::room(x, erase_to.defined());
    visit_each<kFew>(lanes, [&](auto each) {
      const unsigned shared =
          scan_shared<scan_backward_columns_kernel<each, S, T>, T>(room, "linear_scan_backward", "dk");
      VITRINE_LAUNCH((scan_backward_columns_kernel<each, S, T>), blocks, lanes.threads, shared, dv.data<S>(),
                     data_or_null<T>(added), dfirst.data<T>(), x, Rows<S>(dy), dstate.data<T>());
    });
  });
}

void linear_scan_backward_rows(Tensor& dq, Tensor& dk, Tensor& dlog_decay, Tensor& derase_to,
                               Tensor& derase_from, const Tensor& dy, const Tensor& dstate, const Tensor& q,
                               const Tensor& k, const Tensor& v, const Tensor& log_decay,
                               const Tensor& erase_to, const Tensor& erase_from, const Tensor& erased,
                               const Tensor& added, const Tensor& boundaries, double scale) {
  const ScanLanes lanes = lanes_for(v.size(3), "linear_scan_backward", "dv");
  visit_device_floating(q.dtype(), "linear_scan_backward", [&](auto type) {
    using S = typename decltype(type)::type;
    using T = AccumulatorOf<S>;
    const Scan<S> x(q, k, erase_to, erase_from, log_decay, v.size(3), scale, lanes);
    const unsigned blocks = scan_blocks(q.size(0) * q.size(1), x.rows, lanes, "linear_scan_backward");
    if (blocks == 0) return;
    const int64_t room = ColumnTiles<S>::room(x, erase_to.defined());
    const RowGradients<S> d{dq.data<S>(), dk.data<S>(), data_or_null<T>(dlog_decay),
                            data_or_null<S>(derase_to), data_or_null<S>(derase_from)};
    const RowOperands<S, T> o{
        Rows<S>(v),          Rows<S>(dy), dstate.data<T>(), data_or_null<T>(erased), data_or_null<T>(added),
        boundaries.data<T>()};
    visit_each<kFew>(lanes, [&](auto each) {
      const unsigned shared =
          scan_shared<scan_backward_rows_kernel<each, S, T>, T>(room, "linear_scan_backward", "dv");
      VITRINE_LAUNCH((scan_backward_rows_kernel<each, S, T>), blocks, lanes.threads, shared, d, x, o);
    });
  });
}

}  // namespace vitrine::cuda
