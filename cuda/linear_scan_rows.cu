// The part of the linear scan's backward that goes through rows of the state: the gradients of q,
// k, decays and of what erases are sums over columns. A line is a row (cuda/scan_lines.h).
#include "cuda/linear_scan_operands.h"
#include "ops/kernels.h"

namespace vitrine::cuda {
namespace {

using namespace linear_scan_operands;

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

/// The tiles for lines that are rows: vectors with an element per column, for all lines, and
/// elements of the rows of this block.
template <class S>
struct ColumnTiles {
  using T = AccumulatorOf<S>;
  ScanTile<T> v, dy, erased, added, q, k, decay, to, from;
  HeadRows<S> v_rows, dy_rows, q_rows, k_rows, to_rows, from_rows;

  __device__ ColumnTiles(T* room, const Scan<S>& x, const RowOperands<S, T>& o, int64_t head, int positions)
      : v(room, positions, x.width),
        dy(room, positions, x.width),
        erased(room, x.erases() ? positions : 0, x.width),
        added(room, x.erases() ? positions : 0, x.width),
        q(room, positions, x.lines),
        k(room, positions, x.lines),
        decay(room, positions, x.lines),
        to(room, x.erases() ? positions : 0, x.lines),
        from(room, x.erases() ? positions : 0, x.lines),
        v_rows(o.v.of(head)),
        dy_rows(o.dy.of(head)),
        q_rows(x.q.of(head)),
        k_rows(x.k.of(head)),
        to_rows(x.to.of(head)),
        from_rows(x.from.of(head)) {}
  static int64_t room(const Scan<S>& x, bool erases, int positions) {
    return positions * ((erases ? 4 : 2) * x.width + (erases ? 5 : 3) * x.lines);
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
  constexpr int kShortTile = kShortScanTile<kEach>, kTiles = kScanChunk / kShortTile;
  VITRINE_DYNAMIC_SHARED(T, shared);
  const ScanPlace<kEach> at(x.lanes, x.rows, x.columns);
  const ColumnTiles<S> tiles(shared, x, o, at.matrix, kShortTile);
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

}  // namespace

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
    const RowGradients<S> d{dq.data<S>(), dk.data<S>(), data_or_null<T>(dlog_decay),
                            data_or_null<S>(derase_to), data_or_null<S>(derase_from)};
    const RowOperands<S, T> o{
        Rows<S>(v),          Rows<S>(dy), dstate.data<T>(), data_or_null<T>(erased), data_or_null<T>(added),
        boundaries.data<T>()};
    visit_each<kFew>(lanes, [&](auto each) {
      const int64_t room = ColumnTiles<S>::room(x, erase_to.defined(), kShortScanTile<each>);
      const unsigned shared =
          scan_shared<scan_backward_rows_kernel<each, S, T>, T>(room, "linear_scan_backward", "dv");
      VITRINE_LAUNCH((scan_backward_rows_kernel<each, S, T>), blocks, lanes.threads, shared, d, x, o);
    });
  });
}

}  // namespace vitrine::cuda
