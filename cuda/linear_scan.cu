// The linear scan and the part of its backward that goes through columns of the state, step by
// step, with the state in registers (cuda/scan_lines.h): a line is a column.
#include "cuda/linear_scan_operands.h"
#include "ops/kernels.h"

namespace vitrine::cuda {
namespace {

using namespace linear_scan_operands;

/// The tiles for lines that are columns: vectors with an element per row of the state, for all
/// lines, and of v (or dy) the elements of this block's columns.
template <class S>
struct RowTiles {
  using T = AccumulatorOf<S>;
  ScanTile<T> q, k, decay, to, from, v;
  HeadRows<S> q_rows, k_rows, to_rows, from_rows, v_rows;

  __device__ RowTiles(T* room, const Scan<S>& x, const Rows<S>& v, int64_t head, int positions)
      : q(room, positions, x.width),
        k(room, positions, x.width),
        decay(room, positions, x.width),
        to(room, x.erases() ? positions : 0, x.width),
        from(room, x.erases() ? positions : 0, x.width),
        v(room, positions, x.lines),
        q_rows(x.q.of(head)),
        k_rows(x.k.of(head)),
        to_rows(x.to.of(head)),
        from_rows(x.from.of(head)),
        v_rows(v.of(head)) {}
  static int64_t room(const Scan<S>& x, bool erases, int positions) {
    return positions * ((erases ? 5 : 3) * x.width + x.lines);
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
  constexpr int kTile = kScanTile<kEach, T>;
  VITRINE_DYNAMIC_SHARED(T, shared);
  const ScanPlace<kEach> at(x.lanes, x.columns, x.rows);
  const RowTiles<S> tiles(shared, x, v, at.matrix, kTile);
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
  constexpr int kTile = kScanTile<kEach, T>;
  VITRINE_DYNAMIC_SHARED(T, shared);
  const ScanPlace<kEach> at(x.lanes, x.columns, x.rows);
  const RowTiles<S> tiles(shared, x, dy, at.matrix, kTile);
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
    visit_each<kFew>(lanes, [&](auto each) {
      const int64_t room = RowTiles<S>::room(x, erase_to.defined(), kScanTile<each, T>);
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
    visit_each<kFew>(lanes, [&](auto each) {
      const int64_t room = RowTiles<S>::room(x, erase_to.defined(), kScanTile<each, T>);
      const unsigned shared =
          scan_shared<scan_backward_columns_kernel<each, S, T>, T>(room, "linear_scan_backward", "dk");
      VITRINE_LAUNCH((scan_backward_columns_kernel<each, S, T>), blocks, lanes.threads, shared, dv.data<S>(),
                     data_or_null<T>(added), dfirst.data<T>(), x, Rows<S>(dy), dstate.data<T>());
    });
  });
}

}  // namespace vitrine::cuda
