// argsort: the indices of the first k elements of each row in sorted order; stable, NaN last.
//
//   Each block sorts a piece of a row in shared memory by a bitonic network (Batcher 1968):
//   its comparisons do not depend on the data, so all threads compare at the same time. Then pairs
//   of sorted runs are merged until one run is left: the new position of an element is its own
//   position plus the number of smaller elements in the other run, which a binary search finds. No
//   thread waits for another. Equal values are compared by their index, so the order is stable and
//   always the same. Only the first k elements of each run matter, so a topk of few elements needs
//   little merging.
#include <algorithm>
#include <utility>

#include "core/creation.h"
#include "cuda/block.h"
#include "cuda/strided.h"
#include "ops/kernels.h"

namespace vitrine::cuda {
namespace {

template <class T>
struct Key {
  T value;
  int64_t index;  // INT64_MAX after the end of the row
};

template <class T>
__device__ bool before(const Key<T>& a, const Key<T>& b, bool descending) {
  if (a.index == INT64_MAX || b.index == INT64_MAX) return a.index < b.index;
  const bool a_is_nan = a.value != a.value, b_is_nan = b.value != b.value;
  if (a_is_nan != b_is_nan) return b_is_nan;
  if (a_is_nan || a.value == b.value) return a.index < b.index;
  return descending ? a.value > b.value : a.value < b.value;
}

/// The lengths of rows and of sorted runs, and the number of elements of a run that are needed.
struct SortRuns {
  int64_t n, run, k;
  bool descending;
};

/// Block b sorts piece b % pieces of row b / pieces; 2·blockDim elements, a power of two.
template <class S, class T>
__global__ void __launch_bounds__(kMostThreads)
    sort_pieces_kernel(Key<T>* keys, const S* x, SortRuns rows, int64_t pieces) {
  VITRINE_DYNAMIC_SHARED(Key<T>, piece);
  const int64_t row = blockIdx.x / pieces * rows.n, first = blockIdx.x % pieces * rows.run;
  for (unsigned i = threadIdx.x; i < rows.run; i += blockDim.x) {
    const int64_t at = first + i;
    piece[i] = at < rows.n ? Key<T>{static_cast<T>(x[row + at]), at} : Key<T>{T(0), INT64_MAX};
  }
  // Runs of `size` are sorted, alternately up and down, so that two runs form one bitonic sequence.
  // Merging this sequence compares elements at the distances size/2, size/4, …, 1.
  for (unsigned size = 2; size <= rows.run; size *= 2)
    for (unsigned distance = size / 2; distance > 0; distance /= 2) {
      __syncthreads();
      const unsigned i = threadIdx.x / distance * 2 * distance + threadIdx.x % distance;
      const bool up = (i & size) == 0;
      Key<T>&low = piece[i], &high = piece[i + distance];
      if (before(high, low, rows.descending) == up) {
        const Key<T> other = low;
        low = high;
        high = other;
      }
    }
  __syncthreads();
  for (unsigned i = threadIdx.x; i < rows.run; i += blockDim.x)
    if (first + i < rows.n) keys[row + first + i] = piece[i];
}

/// Merges pairs of neighbouring runs into runs of twice the length. Only the first k elements of
/// each run are read and written.
template <class T>
__global__ void merge_runs_kernel(Key<T>* to, const Key<T>* from, SortRuns rows, int64_t count) {
  for (int64_t at = first_index(); at < count; at += grid_stride()) {
    const int64_t i = at % rows.n, own = i / rows.run * rows.run, other = own ^ rows.run;
    const int64_t place = i - own, pair = own < other ? own : other;
    if (place >= rows.k) continue;
    const Key<T> key = from[at];
    int64_t low = 0, high = rows.n - other < rows.run ? rows.n - other : rows.run;
    if (high > rows.k) high = rows.k;
    while (low < high) {  // low: elements of the other run that come before
      const int64_t middle = (low + high) / 2;
      if (before(from[at - i + other + middle], key, rows.descending))
        low = middle + 1;
      else
        high = middle;
    }
    if (place + low < rows.k) to[at - i + pair + place + low] = key;
  }
}

template <class T>
__global__ void indices_kernel(int64_t* indices, const Key<T>* keys, SortRuns rows, int64_t count) {
  for (int64_t i = first_index(); i < count; i += grid_stride())
    indices[i] = keys[i / rows.k * rows.n + i % rows.k].index;
}

constexpr int64_t kLongestPiece = 2 * kMostThreads;

template <class S>
void argsort(Tensor& indices, const Tensor& x, bool descending) {
  using T = std::conditional_t<sizeof(S) == 1, int32_t, AccumulatorOf<S>>;
  const int64_t n = x.size(-1), k = indices.size(-1);
  int64_t run = 2 * kWarp;
  while (run < n && run < kLongestPiece) run *= 2;
  const int64_t pieces = (n + run - 1) / run, blocks = x.numel() / n * pieces;
  Tensor rooms[2];
  Key<T>* keys[2];
  for (int i = 0; i < (run < n ? 2 : 1); ++i) {
    rooms[i] = empty({x.numel() * static_cast<int64_t>(sizeof(Key<T>))}, DType::boolean, x.device());
    keys[i] = static_cast<Key<T>*>(rooms[i].raw());
  }
  VITRINE_LAUNCH((sort_pieces_kernel<S, T>), grid_of(blocks, "argsort", "pieces of rows"),
                 static_cast<unsigned>(run / 2), static_cast<size_t>(run) * sizeof(Key<T>), keys[0],
                 x.data<S>(), (SortRuns{n, run, k, descending}), pieces);
  for (; run < n; run *= 2) {
    VITRINE_LAUNCH((merge_runs_kernel<T>), blocks_for(x.numel()), kThreads, 0, keys[1], keys[0],
                   (SortRuns{n, run, k, descending}), x.numel());
    std::swap(keys[0], keys[1]);
  }
  VITRINE_LAUNCH((indices_kernel<T>), blocks_for(indices.numel()), kThreads, 0, indices.data<int64_t>(),
                 keys[0], (SortRuns{n, run, k, descending}), indices.numel());
}

}  // namespace

void argsort(Tensor& indices, const Tensor& x, bool descending) {
  if (indices.numel() == 0) return;
  visit_device(x.dtype(), "argsort",
               [&](auto type) { argsort<typename decltype(type)::type>(indices, x, descending); });
}

}  // namespace vitrine::cuda
