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
  __device__ S* head(int64_t head) const {
    return data + head / heads * batch_stride + head % heads * head_stride;
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
  using T = AccumulatorOf<S>;
  Rows<S> q, k, to, from;
  Decays<T> decays;
  int64_t time, rows, columns;
  T scale;
  int lanes, lines_per_block;

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
        lines_per_block(static_cast<int>(lanes.lines_per_block())) {}
  __device__ bool erases() const { return to.data != nullptr; }
};

/// One operand as a thread block reads it: from element `first` of one head, as many elements as
/// its tile is wide; beyond `size` they are 0.
template <class T, class S>
__device__ void copy(const ScanTile<T>& tile, const Rows<S>& x, int64_t head, int64_t begin, int positions,
                     int64_t first, int64_t size) {
  const S* const from = x.head(head) + begin * x.stride + first;
  tile.fill(positions, [&](int t, int64_t i) {
    return first + i < size ? static_cast<T>(from[t * x.stride + i]) : T(0);
  });
}

/// Positions of a tile, where lines are columns.
constexpr int kTile = 16;

/// The tiles of the vectors with an element per row of the state, for lines that are columns.
template <class S>
struct RowTiles {
  using T = AccumulatorOf<S>;
  ScanTile<T> q, k, decay, to, from;

  __device__ RowTiles(T*& room, const Scan<S>& x)
      : q(room, kTile, x.rows),
        k(room, kTile, x.rows),
        decay(room, kTile, x.rows),
        to(room, x.erases() ? kTile : 0, x.rows),
        from(room, x.erases() ? kTile : 0, x.rows) {}
  __device__ void copy_from(const Scan<S>& x, int64_t head, int64_t begin, int positions) const {
    copy(q, x.q, head, begin, positions, 0, x.rows);
    copy(k, x.k, head, begin, positions, 0, x.rows);
    decay.fill(positions, [&](int t, int64_t i) { return x.decays.at(head * x.time + begin + t, i); });
    if (!x.erases()) return;
    copy(to, x.to, head, begin, positions, 0, x.rows);
    copy(from, x.from, head, begin, positions, 0, x.rows);
  }
};

template <int kEach, class S, class T>
__global__ void __launch_bounds__(kThreadsOfScan)
    scan_kernel(S* y, T* state, T* erased, T* boundaries, Scan<S> x, Rows<S> v, const T* first) {
  VITRINE_DYNAMIC_SHARED(T, shared);
  T* room = shared;
  const ScanPlace at(x.lanes, x.columns, x.rows);
  const RowTiles<S> tiles(room, x);
  const ScanTile<T> values(room, kTile, x.lines_per_block);
  const int64_t head = at.matrix, j = at.line, size = x.rows * x.columns,
                chunks = (x.time + kScanChunk - 1) / kScanChunk;
  const auto for_each = [&](const auto& f) { at.for_each<kEach>(f); };
  T s[kEach] = {};
  for_each([&](int r, int i) { s[r] = first[head * size + i * x.columns + j]; });
  for (int64_t begin = 0; begin < x.time; begin += kTile) {
    const int positions = positions_of(x.time - begin, kTile);
    if (boundaries != nullptr && begin % kScanChunk == 0) {
      T* const kept = boundaries + (head * chunks + begin / kScanChunk) * size + j;
      for_each([&](int r, int i) { kept[i * x.columns] = s[r]; });
    }
    __syncthreads();  // now all threads have read the tile before
    tiles.copy_from(x, head, begin, positions);
    copy(values, v, head, begin, positions, at.first_line(), x.columns);
    __syncthreads();
    for (int t = 0; t < positions; ++t) {
      const int64_t wide = (head * x.time + begin + t) * x.columns + j;
      T sum = 0, read = 0;
      if (x.erases()) {
        for_each([&](int r, int i) { read += tiles.from(t, i) * s[r]; });
        read = at.sum(read);
        if (erased != nullptr && at.writes()) erased[wide] = read;
      }
      const T value = values(t, at.in_block);
      for_each([&](int r, int i) {
        T next = s[r] * tiles.decay(t, i);
        if (x.erases()) next += tiles.to(t, i) * read;
        s[r] = next + tiles.k(t, i) * value;
        sum += tiles.q(t, i) * s[r];
      });
      sum = at.sum(sum);
      if (at.writes()) y[wide] = S(sum * x.scale);
    }
  }
  for_each([&](int r, int i) { state[head * size + i * x.columns + j] = s[r]; });
}

/// dS from the last position to the first.
template <int kEach, class S, class T>
__global__ void __launch_bounds__(kThreadsOfScan)
    scan_backward_columns_kernel(S* dv, T* added, T* dfirst, Scan<S> x, Rows<S> dy, const T* dstate) {
  VITRINE_DYNAMIC_SHARED(T, shared);
  T* room = shared;
  const ScanPlace at(x.lanes, x.columns, x.rows);
  const RowTiles<S> tiles(room, x);
  const ScanTile<T> values(room, kTile, x.lines_per_block);
  const int64_t head = at.matrix, j = at.line, size = x.rows * x.columns;
  const auto for_each = [&](const auto& f) { at.for_each<kEach>(f); };
  T ds[kEach] = {};
  for_each([&](int r, int i) { ds[r] = dstate[head * size + i * x.columns + j]; });
  for (int64_t end = x.time; end > 0;) {
    const int positions = positions_of(end, kTile);
    const int64_t begin = end - positions;
    __syncthreads();
    tiles.copy_from(x, head, begin, positions);
    copy(values, dy, head, begin, positions, at.first_line(), x.columns);
    __syncthreads();
    for (int t = positions - 1; t >= 0; --t) {
      const int64_t wide = (head * x.time + begin + t) * x.columns + j;
      const T d = values(t, at.in_block) * x.scale;
      T sum = 0, u = 0;
      for_each([&](int r, int i) {
        ds[r] += tiles.q(t, i) * d;
        sum += tiles.k(t, i) * ds[r];
        if (x.erases()) u += tiles.to(t, i) * ds[r];
      });
      sum = at.sum(sum);
      if (at.writes()) dv[wide] = S(sum);
      if (x.erases()) {
        u = at.sum(u);
        if (at.writes()) added[wide] = u;
      }
      for_each([&](int r, int i) {
        ds[r] *= tiles.decay(t, i);
        if (x.erases()) ds[r] += tiles.from(t, i) * u;
      });
    }
    end = begin;
  }
  for_each([&](int r, int i) { dfirst[head * size + i * x.columns + j] = ds[r]; });
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

  __device__ ColumnTiles(T*& room, const Scan<S>& x)
      : v(room, kShortTile, x.columns),
        dy(room, kShortTile, x.columns),
        erased(room, x.erases() ? kShortTile : 0, x.columns),
        added(room, x.erases() ? kShortTile : 0, x.columns),
        q(room, kShortTile, x.lines_per_block),
        k(room, kShortTile, x.lines_per_block),
        decay(room, kShortTile, x.lines_per_block),
        to(room, x.erases() ? kShortTile : 0, x.lines_per_block),
        from(room, x.erases() ? kShortTile : 0, x.lines_per_block) {}
  /// Copies what the state is computed from; with `gradients`, also what dS is computed from.
  __device__ void copy_from(const Scan<S>& x, const RowOperands<S, T>& o, const ScanPlace& at, int64_t begin,
                            int positions, bool gradients) const {
    const int64_t head = at.matrix, first = at.first_line();
    const auto wide = [&](const T* from) {
      return [=](int t, int64_t j) { return from[(head * x.time + begin + t) * x.columns + j]; };
    };
    copy(v, o.v, head, begin, positions, 0, x.columns);
    copy(k, x.k, head, begin, positions, first, x.rows);
    decay.fill(positions, [&](int t, int64_t i) {
      return first + i < x.rows ? x.decays.at(head * x.time + begin + t, first + i) : T(0);
    });
    if (gradients) {
      copy(dy, o.dy, head, begin, positions, 0, x.columns);
      copy(q, x.q, head, begin, positions, first, x.rows);
    }
    if (!x.erases()) return;
    erased.fill(positions, wide(o.erased));
    copy(to, x.to, head, begin, positions, first, x.rows);
    if (!gradients) return;
    added.fill(positions, wide(o.added));
    copy(from, x.from, head, begin, positions, first, x.rows);
  }
  /// S after position t, from S before it; `line` is a row of the block.
  __device__ T next(T before, int t, int line, int j, bool erases) const {
    T s = before * decay(t, line);
    if (erases) s += to(t, line) * erased(t, j);
    return s + k(t, line) * v(t, j);
  }
};

/// Chunk by chunk, from the last one. A first walk through a chunk keeps the state before each of
/// its tiles. Then, from the last tile, the states of the tile are computed again, and dS goes
/// through them.
template <int kEach, class S, class T>
__global__ void __launch_bounds__(kThreadsOfScan)
    scan_backward_rows_kernel(RowGradients<S> d, Scan<S> x, RowOperands<S, T> o) {
  constexpr int kTiles = kScanChunk / kShortTile;
  VITRINE_DYNAMIC_SHARED(T, shared);
  T* room = shared;
  const ScanPlace at(x.lanes, x.rows, x.columns);
  const ColumnTiles<S> tiles(room, x);
  const int64_t head = at.matrix, i = at.line, size = x.rows * x.columns,
                chunks = (x.time + kScanChunk - 1) / kScanChunk;
  const int line = at.in_block;
  const bool erases = x.erases();
  const auto for_each = [&](const auto& f) { at.for_each<kEach>(f); };
  const auto stage = [&](int64_t begin, int positions, bool gradients) {
    __syncthreads();  // now all threads have read the tile before
    tiles.copy_from(x, o, at, begin, positions, gradients);
    __syncthreads();
  };
  T s[kEach] = {}, ds[kEach] = {}, before_tile[kTiles][kEach] = {};
  for_each([&](int r, int j) { ds[r] = o.dstate[head * size + i * x.columns + j]; });
  for (int64_t chunk = chunks - 1; chunk >= 0; --chunk) {
    const int64_t begin = chunk * kScanChunk;
    const int length = positions_of(x.time - begin, kScanChunk),
              count = (length + kShortTile - 1) / kShortTile;
    const T* const boundary = o.boundaries + (head * chunks + chunk) * size + i * x.columns;
    for_each([&](int r, int j) { before_tile[0][r] = s[r] = boundary[j]; });
    for (int tile = 1; tile < count; ++tile) {
      stage(begin + (tile - 1) * kShortTile, kShortTile, false);
      for (int t = 0; t < kShortTile; ++t)
        for_each([&](int r, int j) { s[r] = tiles.next(s[r], t, line, j, erases); });
      for_each([&](int r, int) { before_tile[tile][r] = s[r]; });
    }
    for (int tile = count - 1; tile >= 0; --tile) {
      const int positions = positions_of(length - tile * kShortTile, kShortTile);
      const int64_t first = begin + tile * kShortTile;
      stage(first, positions, true);
      T before[kShortTile][kEach];
      for_each([&](int r, int) { s[r] = before_tile[tile][r]; });
      repeat<kShortTile, kEach == kFew>([&](int t) {
        if (t >= positions) return;
        T dq = 0;
        for_each([&](int r, int j) {
          before[t][r] = s[r];
          s[r] = tiles.next(s[r], t, line, j, erases);
          dq += s[r] * tiles.dy(t, j);
        });
        dq = at.sum(dq);
        if (at.writes()) d.dq[(head * x.time + first + t) * x.rows + i] = S(dq * x.scale);
      });
      repeat<kShortTile, kEach == kFew>([&](int from_end) {
        const int t = kShortTile - 1 - from_end;
        if (t >= positions) return;
        const T decay = tiles.decay(t, line), q = tiles.q(t, line) * x.scale,
                from = erases ? tiles.from(t, line) : T(0);
        T dk = 0, dw = 0, dto = 0, dfrom = 0;
        for_each([&](int r, int j) {
          const T element = ds[r] + q * tiles.dy(t, j);
          dk += element * tiles.v(t, j);
          dw += element * before[t][r];
          ds[r] = element * decay;
          if (!erases) return;
          dto += element * tiles.erased(t, j), dfrom += before[t][r] * tiles.added(t, j);
          ds[r] += from * tiles.added(t, j);
        });
        const int64_t place = (head * x.time + first + t) * x.rows + i;
        dk = at.sum(dk);
        if (at.writes()) d.dk[place] = S(dk);
        if (d.dlog_decay != nullptr) {
          dw = at.sum(dw);
          if (at.writes()) d.dlog_decay[place] = dw * decay;
        }
        if (!erases) return;
        dto = at.sum(dto), dfrom = at.sum(dfrom);
        if (at.writes()) d.dto[place] = S(dto), d.dfrom[place] = S(dfrom);
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
    const int64_t room = kTile * ((erase_to.defined() ? 5 : 3) * x.rows + lanes.lines_per_block());
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
    const int64_t room = kTile * ((erase_to.defined() ? 5 : 3) * x.rows + lanes.lines_per_block());
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
    const bool erases = erase_to.defined();
    const int64_t room =
        kShortTile * ((erases ? 4 : 2) * x.columns + (erases ? 5 : 3) * lanes.lines_per_block());
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
